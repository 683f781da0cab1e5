// Packages of another release of Debian, downloaded by an apt that knows of nothing that is installed.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const quiet = { stdio: ['ignore', 'ignore', 'inherit'] }

/** The files of a package and of everything it depends on, in `folder`. Needs the network. */
export function downloadWithAll({ release, packageName, folder }) {
  const args = aptFor(release, folder)
  // From backports only what is asked for: the rest is the release's own.
  const wanted = release.endsWith('-backports') ? ['-t', release] : []
  execFileSync('apt-get', [...args, ...wanted, '-qq', '-y', '--download-only', 'install', packageName], quiet)
  return packagesIn(path.join(folder, 'archives'))
}

/** The files of a package alone, in `folder`. Needs the network. */
export function downloadAlone({ release, packageName, folder }) {
  execFileSync('apt-get', [...aptFor(release, folder), '-qq', 'download', packageName], { ...quiet, cwd: folder })
  return packagesIn(folder)
}

/** Options of an apt that keeps all its files in `folder` and has read the lists of this release. */
function aptFor(release, folder) {
  for (const place of ['lists/partial', 'archives/partial']) mkdirSync(path.join(folder, place), { recursive: true })
  const place = (name) => path.join(folder, name)
  writeFileSync(place('status'), '')
  writeFileSync(place('sources.list'), sourcesOf(release))
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
    'APT::Install-Recommends': 'false',
    'APT::Sandbox::User': 'root',
    'Debug::NoLocking': 'true',
  }
  const args = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  execFileSync('apt-get', [...args, '-qq', 'update'], quiet)
  return args
}

function sourcesOf(release) {
  const [suite] = release.split('-')
  const releases = new Set([suite, release])
  return [...releases].map((each) => `deb ${mirror()} ${each} main\n`).join('')
}

/** Where this system gets its packages from. */
function mirror() {
  const format = ['--format', '$(REPO_URI)', 'Created-By: Packages']
  const { stdout } = spawnSync('apt-get', ['indextargets', ...format], { encoding: 'utf8' })
  const found = (stdout ?? '').split('\n').find((each) => /\/debian\/?$/.test(each))
  if (found === undefined) throw new Error('This needs a system whose apt has a mirror of Debian among its sources.')
  return found
}

function packagesIn(folder) {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.deb'))
    .map((name) => path.join(folder, name))
}
