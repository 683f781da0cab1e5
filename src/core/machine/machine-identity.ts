import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'

/**
 * Names the machine that this process runs on, in letters that fit into a file name: the same after a restart of the
 * machine, another one on a copy of its disk that was given an id or a host name of its own.
 */
export function machineIdentity(platform: NodeJS.Platform = process.platform, host: string = hostname()): string {
  return createHash('sha256')
    .update(`${machineId(platform)}\n${host}`)
    .digest('hex')
    .slice(0, 16)
}

/** Empty where the system has none: then the host name alone tells machines apart. */
function machineId(platform: NodeJS.Platform): string {
  try {
    if (platform === 'linux') return readFileSync('/etc/machine-id', 'utf8').trim()
    if (platform === 'darwin') return execFileSync('sysctl', ['-n', 'kern.uuid'], { encoding: 'utf8' }).trim()
  } catch {
    // A container may have no such file.
  }
  return ''
}
