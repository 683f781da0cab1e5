// Runs the project's tests and ends with one line: `N passed, N failed`.
//
//   node scripts/test.mjs               checks, unit tests, integration tests
//   node scripts/test.mjs unit          the tests that need neither a build nor a server
//   node scripts/test.mjs integration   the tests on built code, real processes and real stores
//   node scripts/test.mjs checks        build, types, lint, format, package contents, unused code
//   node scripts/test.mjs everything    all of that, more rounds, the long tests and other versions of stores and of Node (hours)
//
// What follows the name goes to vitest: `npm run test:unit -- waiter -t 'dies'`.
import { exec, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)
const packed = '.build/leasehold.tgz'
// A real GitHub wants its pauses: the tests of a repository that GITHUB_REPO names take hours.
const minutesPerRunMax = Number(process.env.TEST_MINUTES_MAX ?? (process.env.GITHUB_REPO ? 300 : 60))
const matrixMinutesMax = 300

const prepare = { embed: 'node scripts/embed.mjs' }
const build = {
  'build the package': 'node scripts/build.mjs',
  'check types and build the tests': 'node scripts/build.mjs --dev',
}
/** Two lines of checks, side by side. */
const checks = [
  { 'lint with types': 'oxlint --type-aware --deny-warnings --report-unused-disable-directives' },
  {
    format: 'oxfmt --check .',
    'unused files, exports and dependencies': 'knip --no-progress --no-config-hints',
    pack: `npm pack --ignore-scripts --silent --pack-destination .build && mv .build/leasehold-*.tgz ${packed}`,
    'package.json against the packed files': `publint --strict ${packed}`,
    'types as a user resolves them': `attw ${packed}`,
  },
]
/** Each fetches what it runs on. */
const matrices = {
  'other versions of Redis, and Valkey': 'scripts/test-redis-versions.mjs',
  'another version of NATS': 'scripts/test-nats-versions.mjs',
  'other versions of PostgreSQL': 'scripts/test-postgres-versions.mjs',
  'other versions of Node': 'scripts/test-node-versions.mjs',
  'Bun and Deno': 'scripts/test-runtimes.mjs',
  'tools of those who install us': 'scripts/test-consumers.mjs',
}
const plans = {
  all: { steps: { ...prepare, ...build }, checks, projects: ['unit', 'integration*'] },
  everything: { steps: { ...prepare, ...build }, checks, projects: ['unit', 'integration*', 'long'], matrices },
  unit: { steps: prepare, projects: ['unit'] },
  integration: { steps: { ...prepare, ...build }, projects: ['integration*'] },
  checks: { steps: { ...prepare, ...build }, checks, projects: [] },
}

const [name = 'all', ...vitestArguments] = process.argv.slice(2)
const plan = plans[name]
if (!plan) {
  console.error(`No tests called "${name}". Choose one of: ${Object.keys(plans).join(', ')}`)
  process.exit(2)
}

mkdirSync('.build', { recursive: true })
process.env.PATH = `${path.join(root, 'node_modules/.bin')}${path.delimiter}${process.env.PATH}`
const total = { passed: 0, failed: 0, skipped: 0 }
/** Every test that ran, with its file: the end of a run names the slowest. */
const finished = []
const shownSlowest = 10

await runChecks(plan.steps)
await Promise.all((plan.checks ?? []).map(runChecks))
if (plan.projects.length > 0) await runTests(plan.projects)
for (const [title, script] of Object.entries(plan.matrices ?? {})) await runMatrix(title, script)

if (finished.length > shownSlowest) showSlowest()
console.log(`\nIt took ${(performance.now() / 60_000).toFixed(1)} minutes.`)
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : ''
console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`)
process.exit(total.failed > 0 ? 1 : 0)

/** Runs checks one after the other, and shows what they printed only when they failed. Each counts as one test. */
async function runChecks(commands) {
  for (const [title, command] of Object.entries(commands)) {
    const startedAt = performance.now()
    const { succeeded, printed } = await runCheck(command)
    count(title, succeeded, startedAt)
    if (!succeeded) console.log(printed.trimEnd())
  }
}

function runCheck(command) {
  return new Promise((resolve) => {
    exec(command, { timeout: 300_000, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ succeeded: error === null, printed: `${stdout}${stderr}` }),
    )
  })
}

/** Runs a script that runs tests on several versions. It counts as one test. */
async function runMatrix(title, script) {
  const startedAt = performance.now()
  console.log(`\n${title}`)
  count(title, await runInGroup(process.execPath, [script], matrixMinutesMax), startedAt)
}

function count(title, succeeded, startedAt) {
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  console.log(`${succeeded ? 'ok    ' : 'FAILED'} ${title} (${seconds} s)`)
  total[succeeded ? 'passed' : 'failed'] += 1
}

/** Runs vitest projects together, with their output shown as it comes, and adds their counts to the total. */
async function runTests(projects) {
  const results = `.build/results-${projects.join('-').replaceAll('*', '')}.json`
  rmSync(results, { force: true })
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${results}`]
  const named = projects.flatMap((project) => ['--project', project])
  // Read by test/support/extent.ts.
  const environment = plan.matrices === undefined ? {} : { TEST_ALL: '1' }
  const minutesMax = minutesPerRunMax * (plan.matrices === undefined ? 1 : 5)
  const words = ['run', ...named, ...reporters, ...vitestArguments]
  const succeeded = await runInGroup('vitest', words, minutesMax, environment)
  const counts = existsSync(results) ? JSON.parse(readFileSync(results, 'utf8')) : {}
  const { numPassedTests = 0, numFailedTests = 0, numPendingTests = 0, numTodoTests = 0 } = counts
  total.passed += numPassedTests
  total.skipped += numPendingTests + numTodoTests
  // A run can fail without a failed test: a file that does not load, an error nobody caught, no test at all.
  const ranSome = numPassedTests + numFailedTests > 0
  total.failed += succeeded && ranSome ? numFailedTests : Math.max(numFailedTests, 1)
  for (const { name: file, assertionResults } of counts.testResults ?? []) {
    for (const { fullName, duration = 0 } of assertionResults) {
      finished.push({ title: `${path.relative(root, file)}: ${fullName}`, duration })
    }
  }
}

/** Names the slowest tests: that is where a run can be made shorter. */
function showSlowest() {
  console.log(`\nThe ${shownSlowest} slowest tests:`)
  for (const { title, duration } of finished.toSorted((a, b) => b.duration - a.duration).slice(0, shownSlowest)) {
    console.log(`${(duration / 1000).toFixed(1).padStart(7)} s  ${title}`)
  }
}

/** Resolves to whether the command succeeded. Its process group ends with it: a test stuck in a loop ignores signals. */
function runInGroup(command, args, minutesMax, environment = {}) {
  const env = { ...process.env, ...environment }
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'], detached: true, env })
  const endGroup = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // Nothing of the group is left.
    }
  }
  const timer = setTimeout(() => {
    console.log(`FAILED ${command} did not end within ${minutesMax} minutes`)
    endGroup()
  }, minutesMax * 60_000)
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      endGroup()
      process.exit(1)
    })
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (status) => {
      clearTimeout(timer)
      endGroup()
      resolve(status === 0)
    })
  })
}
