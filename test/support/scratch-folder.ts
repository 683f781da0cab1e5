import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** Makes an empty folder in the system's temporary directory. Whoever makes it removes it. */
export function makeFolder(name: string): string {
  return mkdtempSync(path.join(tmpdir(), `leasehold-${name}-`))
}

/** Removes a folder and all that is in it; a folder that is gone already is no error. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
}
