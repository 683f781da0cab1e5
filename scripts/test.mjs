// Runs the project's tests and ends with one line: `N passed, N failed`.
//
//   node scripts/test.mjs               checks, unit tests, integration tests
//   node scripts/test.mjs unit          the tests that need neither a build nor a server
//   node scripts/test.mjs integration   the tests on built code, real processes and real stores
//   node scripts/test.mjs checks        build, types, lint, format, package contents, unused code
//   node scripts/test.mjs everything    all of that, and the long tests of test/slow (about half an hour more)
//
// What follows the name goes to vitest: `npm run test:unit -- waiter -t 'dies'`.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)
const packed = '.build/leasehold.tgz'
// A real GitHub wants its pauses: the tests of a repository that GITHUB_REPO names take hours.
const minutesPerRunMax = Number(process.env.TEST_MINUTES_MAX ?? (process.env.GITHUB_REPO ? 300 : 30))

const prepare = { embed: 'node scripts/embed.mjs' }
const build = {
  'build the package': 'node scripts/build.mjs',
  'check types and build the tests': 'node scripts/build.mjs --dev',
}
const checks = {
  'lint with types': 'oxlint --type-aware --deny-warnings --report-unused-disable-directives',
  format: 'oxfmt --check .',
  'unused files, exports and dependencies': 'knip --no-progress --no-config-hints',
  pack: `npm pack --ignore-scripts --silent --pack-destination .build && mv .build/leasehold-*.tgz ${packed}`,
  'package.json against the packed files': `publint --strict ${packed}`,
  'types as a user resolves them': `attw ${packed}`,
}
const plans = {
  all: { steps: { ...prepare, ...build, ...checks }, projects: ['unit', 'integration*'] },
  everything: { steps: { ...prepare, ...build, ...checks }, projects: ['unit', 'integration*', 'slow'] },
  unit: { steps: prepare, projects: ['unit'] },
  integration: { steps: { ...prepare, ...build }, projects: ['integration*'] },
  checks: { steps: { ...prepare, ...build, ...checks }, projects: [] },
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

for (const [title, command] of Object.entries(plan.steps)) runCheck(title, command)
for (const project of plan.projects) await runTests(project)

if (finished.length > shownSlowest) showSlowest()
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : ''
console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`)
process.exit(total.failed > 0 ? 1 : 0)

/** Runs one check, and shows what it printed only when it failed. It counts as one test. */
function runCheck(title, command) {
  const startedAt = performance.now()
  const { status, stdout, stderr } = spawnSync(command, { shell: true, encoding: 'utf8', timeout: 300_000 })
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${title} (${seconds} s)`)
  if (status !== 0) console.log(`${stdout}${stderr}`.trimEnd())
  total[status === 0 ? 'passed' : 'failed'] += 1
}

/** Runs one vitest project with its output shown as it comes, and adds its counts to the total. */
async function runTests(project) {
  const results = `.build/results-${project.replace('*', '')}.json`
  rmSync(results, { force: true })
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${results}`]
  const succeeded = await runInGroup('vitest', ['run', '--project', project, ...reporters, ...vitestArguments])
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
function runInGroup(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'], detached: true })
  const endGroup = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // Nothing of the group is left.
    }
  }
  const timer = setTimeout(() => {
    console.log(`FAILED ${command} did not end within ${minutesPerRunMax} minutes`)
    endGroup()
  }, minutesPerRunMax * 60_000)
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
