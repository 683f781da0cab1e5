import { homedir } from 'node:os'
import path from 'node:path'

/** Where the locks of this user live when nobody names a file. */
export function defaultFile(
  environment: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  return path.join(stateDirectory(environment, platform), 'locks.sqlite')
}

/** Where this user's programs keep what they remember. */
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
