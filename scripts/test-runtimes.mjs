// Runs the tests in Bun and in Deno, with the real Vitest, whose workers are processes of the same runtime. Not part of
// `npm test`; `npm run test:all` runs a slice with the other tests (test/integration/runtimes.test.ts).
//
//   npm run test:runtimes                            every suite below, in both
//   npm run test:runtimes -- bun                     in this one
//   npm run test:runtimes -- deno redis postgres     these suites
//
// What is not run there is listed below with its reason, and is printed at the end.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { fetchRuntime, runtimes } from './fetch-runtime.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)

/** Files of tests by the words that Vitest chooses them by. */
const suites = new Map([
  // The client, the rule, the primitives, the memory and SQLite stores, and the parts of all others.
  ['unit', { projects: ['unit'], words: [] }],
  ['sqlite', { projects: ['integration'], words: ['integration/sqlite', 'client-sqlite', 'primitives-sqlite'] }],
  ['processes', { projects: ['integration-alone'], words: ['-processes', 'history-'] }],
  ['http', { projects: ['integration'], words: ['integration/http', 'integration/server'] }],
  ['redis', { projects: ['integration'], words: ['integration/redis', 'primitives-redis'] }],
  ['postgres', { projects: ['integration'], words: ['integration/postgres', 'primitives-postgres'] }],
  ['etcd', { projects: ['integration', 'long'], words: ['integration/etcd', 'client-etcd', 'primitives-etcd'] }],
  ['s3', { projects: ['integration', 'long'], words: ['integration/s3'] }],
  ['mongodb', { projects: ['integration'], words: ['integration/mongodb.test'] }],
  ['quorum', { projects: ['integration', 'long'], words: ['integration/quorum', 'primitives-quorum'] }],
  [
    'cli',
    { projects: ['integration'], words: ['integration/cli', 'commands'], notOn: { deno: 'see docs/runtimes.md' } },
  ],
])

/** Part of `npm run test:all`: conformance on the stores that need no server, within seconds. */
const slice = {
  projects: ['unit', 'integration'],
  words: ['unit/memory.test', 'sqlite-conformance', 'unit/runtime.test', 'integration/http.test'],
  only: 'keeps the contract|this is ',
}

const ofRetries = 'the HTTP client of Deno sends a request again by itself when a connection that was kept breaks'
const ofUncaught = 'it reads how Node prints an error that nobody caught'
/** Tests that are not run in a runtime, by the ends of their titles. */
const notRun = [
  { on: ['deno'], title: 'leaves the outcome unknown; released by id, nothing is left', reason: ofRetries },
  { on: ['bun', 'deno'], title: 'is named as read-only, whether directory or file', reason: ofUncaught },
  { on: ['bun', 'deno'], title: 'where it is mounted by itself, as a container may have it', reason: ofUncaught },
  {
    on: ['deno'],
    title: 'processes of the oldest node:sqlite and of this Node hand a lock over to each other',
    reason: 'Deno cannot fork a process of Node; test/integration/runtimes.test.ts has the same, forked by Node',
  },
  {
    on: ['bun'],
    title: 'a server answers all the same',
    reason: 'it looks at whether standard error is non-blocking, which Bun makes it',
  },
  {
    on: ['bun'],
    title: 'where there is no /proc, a command is stopped with its process group',
    reason: 'Bun itself does not start where /proc is not mounted',
  },
]

const given = process.argv.slice(2)
const known = new Map([...suites, ['slice', slice]])
const unknown = given.filter((word) => !runtimes.has(word) && !known.has(word))
if (unknown.length > 0) {
  console.error(`Nothing called ${unknown.join(', ')}. Choose of: ${[...runtimes.keys(), ...known.keys()].join(', ')}`)
  process.exit(2)
}
const chosenRuntimes = [...runtimes.keys()].filter((name) => given.includes(name))
const chosenSuites = [...known].filter(([name]) => given.includes(name))
const isSlice = chosenSuites.length > 0 && chosenSuites.every(([name]) => name === 'slice')

/** How a runtime runs a program as itself. */
const how = { bun: ['--bun'], deno: ['run', '-A'] }

// The slice is run by a test, which has built what it needs.
if (!isSlice) build()
mkdirSync('.build', { recursive: true })
const lines = []
const skipped = []
for (const runtime of chosenRuntimes.length > 0 ? chosenRuntimes : runtimes.keys()) {
  const program = fetchRuntime(runtime)
  requireItself(runtime, program)
  for (const [name, suite] of chosenSuites.length > 0 ? chosenSuites : suites) {
    const reason = suite.notOn?.[runtime]
    if (reason === undefined) lines.push(runSuite(runtime, program, name, suite))
    else skipped.push(`${runtime}: the suite ${name} (${reason})`)
  }
}
console.log(`\nNot run:\n${skipped.map((line) => `  ${line}`).join('\n') || '  nothing'}\n\n${lines.join('\n')}`)
process.exit(lines.every((line) => line.startsWith('ok')) ? 0 : 1)

function build() {
  for (const script of [['scripts/build.mjs'], ['scripts/build.mjs', '--dev']]) {
    const { status } = spawnSync(process.execPath, script, { stdio: 'inherit' })
    if (status !== 0) process.exit(1)
  }
}

/** Vitest's workers must be of the runtime, not of a Node that happens to be on the PATH: a test says so, by its global. */
function requireItself(runtime, program) {
  const { stdout } = vitest(runtime, program, ['--project', 'unit', 'unit/runtime.test', '--reporter=verbose'], 'pipe')
  const wanted = runtime === 'bun' ? 'Bun' : 'Deno'
  if (stdout?.includes(`this is ${wanted}`)) return
  console.error(`The tests do not run in ${wanted}:\n${stdout}`)
  process.exit(1)
}

/** Runs a suite, and says how it went in one line. A run in which nothing was run has failed. */
function runSuite(runtime, program, name, { projects, words, only = '' }) {
  const excluded = notRun.filter(({ on }) => on.includes(runtime))
  const results = `.build/results-${runtime}-${name}.json`
  rmSync(results, { force: true })
  const titles = excluded.map(({ title }) => title.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
  const but = titles.length === 0 ? '' : `(?!.*(?:${titles.join('|')})$)`
  const chosen = ['-t', `^${but}.*(?:${only})`]
  const reporters = [
    isSlice ? '--reporter=dot' : '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${results}`,
  ]
  console.log(`\n==== ${runtime} ${runtimes.get(runtime).version}: ${name}`)
  const { status } = vitest(
    runtime,
    program,
    [...projects.flatMap((each) => ['--project', each]), ...words, ...chosen, ...reporters],
    'inherit',
  )
  const {
    numPassedTests = 0,
    numFailedTests = 0,
    testResults = [],
  } = existsSync(results) ? JSON.parse(readFileSync(results, 'utf8')) : {}
  for (const { status: outcome, fullName } of testResults.flatMap(({ assertionResults }) => assertionResults)) {
    if (outcome === 'passed' || outcome === 'failed' || only !== '') continue
    const { reason = 'the test skips itself' } = excluded.find(({ title }) => fullName.endsWith(title)) ?? {}
    skipped.push(`${runtime}: ${fullName} (${reason})`)
  }
  const isGood = status === 0 && numFailedTests === 0 && numPassedTests > 0
  return `${isGood ? 'ok    ' : 'FAILED'} ${runtime} ${name}: ${numPassedTests} passed, ${numFailedTests} failed`
}

function vitest(runtime, program, args, stdio) {
  const all = [...how[runtime], 'node_modules/vitest/vitest.mjs', 'run', ...args]
  return spawnSync(program, all, { cwd: root, stdio: ['ignore', stdio, 'inherit'], encoding: 'utf8' })
}
