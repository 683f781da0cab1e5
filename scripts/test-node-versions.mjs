// Runs the tests on other versions of Node, on which SQLite has another binding. Not part of `npm test`: it fetches 50 MB a
// version, once, and takes as long as `npm test` for each.
//
//   npm run test:node-versions                                   every version below
//   npm run test:node-versions -- 24                             this one
//   npm run test:node-versions -- 24 integration sqlite cli      of this one, what `scripts/test.mjs` is told
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const versions = { 22: '22.23.3', 24: '24.21.0', 26: '26.10.0' }
const given = process.argv.slice(2)
const isMajor = (word) => /^\d+$/.test(word)
const asked = given.filter(isMajor)
const tests = given.filter((word) => !isMajor(word))
const unknown = asked.filter((major) => !(major in versions))
if (unknown.length > 0) {
  console.error(`No version called ${unknown.join(', ')}. Choose of: ${Object.keys(versions).join(', ')}`)
  process.exit(2)
}

const lines = []
for (const major of asked.length > 0 ? asked : Object.keys(versions)) {
  const programs = path.join(fetched(versions[major]), 'bin')
  const program = path.join(programs, 'node')
  const version = `Node ${execFileSync(program, ['--version'], { encoding: 'utf8' }).trim()}`
  console.log(`\n==== ${version}`)
  const env = { ...process.env, PATH: `${programs}${path.delimiter}${process.env.PATH}` }
  const { status } = spawnSync(program, ['scripts/test.mjs', ...tests], { cwd: root, stdio: 'inherit', env })
  lines.push(`${status === 0 ? 'ok    ' : 'FAILED'} ${version}`)
}
console.log(`\n${lines.join('\n')}`)
process.exit(lines.every((line) => line.startsWith('ok')) ? 0 : 1)

/** Where a version is: fetched from npm unless it is there. */
function fetched(version) {
  const place = path.join(tmpdir(), 'leasehold-node-versions', version)
  if (existsSync(place)) return place
  const name = `node-${process.platform}-${process.arch}@${version}`
  const scratch = mkdtempSync(path.join(tmpdir(), 'leasehold-fetch-'))
  run('npm', ['pack', '--silent', '--pack-destination', scratch, name], scratch)
  run('sh', ['-c', 'tar xzf *.tgz'], scratch)
  mkdirSync(path.dirname(place), { recursive: true })
  renameSync(path.join(scratch, 'package'), place)
  rmSync(scratch, { recursive: true })
  return place
}

/** Runs a command, and ends with it if it fails. */
function run(command, args, cwd) {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) process.exit(status ?? 1)
}
