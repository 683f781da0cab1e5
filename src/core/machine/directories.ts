import { homedir } from 'node:os'
import path from 'node:path'
import { mkdirSync } from 'node:fs'

/** The default file of this user's locks. */
export function defaultFile(
  environment: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  return path.join(stateDirectory(environment, platform), 'locks.sqlite')
}

/** The directory where Leasehold keeps the state of this user. */
export function stateDirectory(
  environment: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  const { LEASEHOLD_STATE_DIR, XDG_STATE_HOME, LOCALAPPDATA } = environment
  if (LEASEHOLD_STATE_DIR) return path.resolve(LEASEHOLD_STATE_DIR)
  // The XDG rule: a relative path is to be ignored.
  if (XDG_STATE_HOME && path.isAbsolute(XDG_STATE_HOME)) return path.join(XDG_STATE_HOME, 'leasehold')
  if (platform === 'win32') return path.join(LOCALAPPDATA ?? path.join(homedir(), 'AppData', 'Local'), 'leasehold')
  if (platform === 'darwin') return path.join(homedir(), 'Library', 'Application Support', 'leasehold')
  return path.join(homedir(), '.local', 'state', 'leasehold')
}

/**
 * Makes a directory, for this user alone, and the missing directories above it. Node's own `recursive` never returns on a
 * file system that reports the parent as missing at every step, as /proc does.
 */
export function makeDirectory(directory: string): void {
  const above = path.dirname(directory)
  try {
    makeLast(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || above === directory) throw error
    makeDirectory(above)
    makeLast(directory)
  }
}

/** Makes the last directory of a path, unless another process was quicker. */
function makeLast(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
