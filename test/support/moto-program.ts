/**
 * Where an S3 server comes from that others wrote: moto, out of Debian's unstable release, on the Python modules of this one. Earlier
 * versions ignore `If-Match` when they write.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { downloadAlone } from '../../scripts/debian-packages.mjs'
import { needPackages } from './debian.ts'

const python = '/usr/bin/python3'
const modules = ['boto3', 'cryptography', 'flask', 'flask_cors', 'requests', 'responses', 'werkzeug', 'xmltodict']

/** How to start the server on a port. `release`: of Debian; `trixie` has a moto that ignores `If-Match`. */
export function motoCommand(port: number, release: 'sid' | 'trixie' = 'sid'): readonly [string, ...string[]] {
  needModules()
  return [python, path.resolve('test/support/moto-server.py'), unpackedMoto(release), String(port)]
}

function needModules(): void {
  // Finds them without loading them, which takes as long as a test.
  const found = `from importlib.util import find_spec; assert all(map(find_spec, "${modules.join(' ')}".split()))`
  const isThere = (): boolean => spawnSync(python, ['-c', found]).status === 0
  if (isThere()) return
  needPackages(
    'What moto needs',
    modules.map((name) => `python3-${name.replace('_', '-')}`),
  )
  if (!isThere()) throw new Error(`${python} cannot import ${modules.join(', ')}.`)
}

/** The folder of the package, fetched once. Two processes may do this at once. */
function unpackedMoto(release: string): string {
  const cache = path.join(process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'), 'leasehold')
  const folder = path.join(cache, `moto-${release}`)
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  const fetching = mkdtempSync(path.join(cache, 'fetching-'))
  try {
    const root = path.join(fetching, 'root')
    const [file] = downloadAlone({ release, packageName: 'python3-moto', folder: fetching })
    if (file === undefined) throw new Error(`Debian ${release} has no python3-moto.`)
    execFileSync('dpkg-deb', ['--extract', file, root])
    renameSync(root, folder)
  } catch (error) {
    // Another process was quicker.
    if (!existsSync(folder)) throw error
  } finally {
    rmSync(fetching, { recursive: true, force: true })
  }
  return folder
}
