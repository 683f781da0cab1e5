// Runs the tests on other versions of Node, whose SQLite, and whose way of talking to it, differ. Not part of `npm test`,
// which runs a slice on the oldest `node:sqlite` (test/integration/sqlite-node-versions.test.ts).
//
//   npm run test:node-versions                                   every version below
//   npm run test:node-versions -- 24.6 26                        these
//   npm run test:node-versions -- 24 integration sqlite cli      of this one, what `scripts/test.mjs` is told
//
// The last version of a major runs everything, and takes as long as `npm test`. The others are those at which something
// about SQLite changed, and run the tests of that store.
import { execFileSync, spawnSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fetchNode } from './fetch-node.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const everything = [['all']]
const ofSqlite = [
  ['unit', 'sqlite'],
  ['integration', 'sqlite'],
]
const versions = new Map([
  // The oldest we run on. No `node:sqlite` up to 22.12, so that the bound package serves.
  ['20.19', { exact: '20.19.0', tests: ofSqlite }],
  ['20', { exact: '20.20.2', tests: everything }],
  ['22.12', { exact: '22.12.0', tests: ofSqlite }],
  // The first with `node:sqlite`: SQLite 3.47.
  ['22.13', { exact: '22.13.0', tests: ofSqlite }],
  ['22.16', { exact: '22.16.0', tests: ofSqlite }],
  // The last that cannot bind numbered parameters by position, and the first that can.
  ['22.19', { exact: '22.19.0', tests: ofSqlite }],
  ['22.20', { exact: '22.20.0', tests: ofSqlite }],
  ['22', { exact: '22.23.3', tests: everything }],
  ['24.0', { exact: '24.0.2', tests: ofSqlite }],
  ['24.6', { exact: '24.6.0', tests: ofSqlite }],
  ['24.7', { exact: '24.7.0', tests: ofSqlite }],
  ['24', { exact: '24.21.0', tests: everything }],
  ['26', { exact: '26.10.0', tests: everything }],
])
const given = process.argv.slice(2)
const isVersion = (word) => /^\d+(\.\d+)?$/.test(word)
const asked = given.filter(isVersion)
const tests = given.filter((word) => !isVersion(word))
const unknown = asked.filter((name) => !versions.has(name))
if (unknown.length > 0) {
  console.error(`No version called ${unknown.join(', ')}. Choose of: ${[...versions.keys()].join(', ')}`)
  process.exit(2)
}

const lines = []
for (const name of asked.length > 0 ? asked : versions.keys()) {
  const { exact, tests: usual } = versions.get(name)
  const program = fetchNode(exact)
  const version = `Node ${execFileSync(program, ['--version'], { encoding: 'utf8' }).trim()}`
  console.log(`\n==== ${version}`)
  const env = { ...process.env, PATH: `${path.dirname(program)}${path.delimiter}${process.env.PATH}` }
  const passed = (tests.length > 0 ? [tests] : usual).every(
    (words) => spawnSync(program, ['scripts/test.mjs', ...words], { cwd: root, stdio: 'inherit', env }).status === 0,
  )
  lines.push(`${passed ? 'ok    ' : 'FAILED'} ${version}`)
}
console.log(`\n${lines.join('\n')}`)
process.exit(lines.every((line) => line.startsWith('ok')) ? 0 : 1)
