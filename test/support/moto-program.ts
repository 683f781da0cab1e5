/**
 * Where an S3 server comes from that others wrote: moto, out of Debian's unstable release, on the Python modules of this one. Earlier
 * versions ignore `If-Match` when they write.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
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
    execFileSync('dpkg-deb', ['--extract', download(release, fetching), root])
    renameSync(root, folder)
  } catch (error) {
    // Another process was quicker.
    if (!existsSync(folder)) throw error
  } finally {
    rmSync(fetching, { recursive: true, force: true })
  }
  return folder
}

/** Downloads the package alone, by an apt that knows of this release only. */
function download(release: string, folder: string): string {
  for (const place of ['lists/partial', 'archives/partial']) mkdirSync(path.join(folder, place), { recursive: true })
  const place = (name: string): string => path.join(folder, name)
  writeFileSync(place('status'), '')
  writeFileSync(place('sources.list'), `deb ${mirror()} ${release} main\n`)
  const options = {
    'Dir::Etc::sourcelist': place('sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::Etc::preferences': '-',
    'Dir::State::lists': place('lists'),
    'Dir::State::status': place('status'),
    'Dir::Cache::archives': place('archives'),
    'Dir::Cache::pkgcache': '',
    'Dir::Cache::srcpkgcache': '',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '5',
    'APT::Sandbox::User': 'root',
    'Debug::NoLocking': 'true',
  }
  const args = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const quiet = { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] as ['ignore', 'ignore', 'inherit'] }
  execFileSync('apt-get', [...args, '-qq', 'update'], quiet)
  execFileSync('apt-get', [...args, '-qq', 'download', 'python3-moto'], quiet)
  const name = readdirSync(folder).find((each) => each.endsWith('.deb'))
  if (name === undefined) throw new Error(`Debian ${release} has no python3-moto.`)
  return place(name)
}

/** Where this system gets its packages from. */
function mirror(): string {
  const format = ['--format', '$(REPO_URI)', 'Created-By: Packages']
  const { stdout } = spawnSync('apt-get', ['indextargets', ...format], { encoding: 'utf8' })
  const found = stdout?.split('\n').find((each) => /\/debian\/?$/.test(each))
  if (found === undefined) throw new Error('This needs a system whose apt has a mirror of Debian among its sources.')
  return found
}
