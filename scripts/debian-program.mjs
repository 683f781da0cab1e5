// A program out of another release of Debian, unpacked beside the system with all it needs, and nothing installed.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { downloadWithAll } from './debian-packages.mjs'

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
  const aptFolder = path.join(folder, 'apt')
  for (const file of downloadWithAll({ release, packageName, folder: aptFolder })) {
    execFileSync('dpkg-deb', ['--extract', file, root])
  }
  rmSync(aptFolder, { recursive: true })
  // Its own loader and its own libraries: those of this system may be older than what it was built with.
  const libraries = librariesOf(root)
  const command = [loaderIn(libraries), '--library-path', libraries.join(':'), path.join(root, place, program)]
  writeFileSync(launcher, `#!/bin/sh\nexec ${command.map(quoted).join(' ')} "$@"\n`)
  chmodSync(launcher, 0o755)
  return launcher
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
