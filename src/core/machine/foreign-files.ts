import { lstatSync, statSync } from 'node:fs'

/** Whether somebody else than this user or root made a name, or the symbolic link of that name. False on Windows. */
export function isMadeByStranger(name: string): boolean {
  const user = process.geteuid?.()
  if (user === undefined) return false
  const stats = lstatSync(name, { throwIfNoEntry: false })
  return stats !== undefined && stats.uid !== user && stats.uid !== 0
}

/**
 * Whether somebody else than this user or root can choose what is in a directory: it, or a symbolic link to it, is theirs, or others
 * may write there. False on Windows.
 */
export function isOpenToStrangers(directory: string): boolean {
  if (isMadeByStranger(directory)) return true
  const user = process.geteuid?.()
  const stats = statSync(directory, { throwIfNoEntry: false })
  if (user === undefined || stats === undefined) return false
  return (stats.uid !== user && stats.uid !== 0) || (stats.mode & 0o022) !== 0
}
