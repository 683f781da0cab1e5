// A program out of another release of Debian, unpacked beside the system with all it needs, and nothing installed.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

/**
 * The path of `program` from `packageName` of a Debian release, such as `trixie` or `bookworm-backports`; `place` is its folder there.
 * Needs apt and the network the first time, then only `cache`.
 */
export function debianProgram({ release, packageName, program, cache, place = 'usr/bin' }) {
  const folder = path.join(cache, `${release}-${packageName}`)
  const launcher = path.join(folder, program)
  if (existsSync(launcher)) return launcher
  rmSync(folder, { recursive: true, force: true })
  const root = path.join(folder, 'root')
  mkdirSync(root, { recursive: true })
  for (const file of download({ release, packageName, folder })) execFileSync('dpkg-deb', ['--extract', file, root])
  rmSync(path.join(folder, 'apt'), { recursive: true })
  // Its own loader and its own libraries: those of this system may be older than what it was built with.
  const libraries = librariesOf(root)
  const command = [loaderIn(libraries), '--library-path', libraries.join(':'), path.join(root, place, program)]
  writeFileSync(launcher, `#!/bin/sh\nexec ${command.map(quoted).join(' ')} "$@"\n`)
  chmodSync(launcher, 0o755)
  return launcher
}

/** Downloads a package and everything it depends on, by an apt that knows of no installed package and of one release. */
function download({ release, packageName, folder }) {
  const aptFolder = path.join(folder, 'apt')
  for (const place of ['lists/partial', 'archives/partial']) mkdirSync(path.join(aptFolder, place), { recursive: true })
  const place = (name) => path.join(aptFolder, name)
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
    'APT::Install-Recommends': 'false',
    'APT::Sandbox::User': 'root',
    'Debug::NoLocking': 'true',
  }
  const args = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const quiet = { stdio: ['ignore', 'ignore', 'inherit'] }
  execFileSync('apt-get', [...args, '-qq', 'update'], quiet)
  // From backports only what is asked for: the rest is the release's own.
  const wanted = release.endsWith('-backports') ? ['-t', release] : []
  execFileSync('apt-get', [...args, ...wanted, '-qq', '-y', '--download-only', 'install', packageName], quiet)
  return readdirSync(place('archives'))
    .filter((name) => name.endsWith('.deb'))
    .map((name) => place(path.join('archives', name)))
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

/** Where the libraries of an unpacked system are: in folders named after the machine, `x86_64-linux-gnu` say. */
function librariesOf(root) {
  const places = ['lib', 'usr/lib'].map((place) => path.join(root, place)).filter((place) => existsSync(place))
  return places.flatMap((place) =>
    readdirSync(place)
      .filter((name) => name.endsWith('-linux-gnu'))
      .map((name) => path.join(place, name)),
  )
}

function loaderIn(libraries) {
  const files = libraries.flatMap((place) => readdirSync(place).map((name) => path.join(place, name)))
  const loader = files.find((file) => /\/ld-linux[^/]*\.so\.\d+$/.test(file))
  if (loader === undefined) throw new Error('The packages brought no loader.')
  return loader
}

function quoted(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
