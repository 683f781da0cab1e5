import { statSync } from 'node:fs'

/** Identifies a file while it is open somewhere: until then the system gives its inode to no other file. */
export interface FileIdentity {
  readonly device: number
  readonly inode: number
  /** When it was made, in milliseconds since 1970; undefined where the file system does not say. */
  readonly madeAt: number | undefined
}

/** Undefined: there is no such file. Opens nothing. */
export function identify(file: string): FileIdentity | undefined {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (stats === undefined) return undefined
  const { birthtimeMs, ctimeMs } = stats
  // Where a file system does not keep the time of birth, Node gives that of the last change.
  const madeAt = birthtimeMs > 0 && birthtimeMs < ctimeMs ? birthtimeMs : undefined
  return { device: stats.dev, inode: stats.ino, madeAt }
}

/** Whether both are the same file, or both are missing. */
export function isSameFile(found: FileIdentity | undefined, opened: FileIdentity | undefined): boolean {
  return found?.device === opened?.device && found?.inode === opened?.inode
}

/** The identity as the file itself keeps it. Without the device, whose number may change with a reboot. */
export function identityText({ inode, madeAt }: FileIdentity): string {
  return madeAt === undefined ? String(inode) : `${inode} ${madeAt}`
}

/** By how much two runtimes may differ on one file's birth: Deno rounds to milliseconds, Node does not. */
const madeAtWithinMs = 1

/** Whether the text may have been written into this very file, and not into one that it is a copy of. */
export function isIdentityOf(text: string, { inode, madeAt }: FileIdentity): boolean {
  const [keptInode, keptMadeAt] = text.split(' ')
  if (keptInode !== String(inode)) return false
  return madeAt === undefined || keptMadeAt === undefined || Math.abs(Number(keptMadeAt) - madeAt) <= madeAtWithinMs
}
