// Runs the Redis tests (contract, model, faults, cluster) on other versions of Redis, and on Valkey.
//
//   npm run test:redis-versions                     all of them
//   npm run test:redis-versions -- valkey-8.0       those named
//   REDIS_SERVERS=/a/redis-server:/b/valkey-server npm run test:redis-versions     your own, instead
//
// The servers come from releases of Debian, through apt, into node_modules/.cache. Nothing is installed.
import { execFileSync, spawnSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { debianProgram } from './debian-program.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const cache = path.join(root, 'node_modules/.cache/leasehold-redis')
const known = {
  'redis-7.0': { release: 'bookworm', packageName: 'redis-server', program: 'redis-server' },
  'redis-8.0': { release: 'trixie', packageName: 'redis-server', program: 'redis-server' },
  'valkey-8.0': { release: 'bookworm-backports', packageName: 'valkey-server', program: 'valkey-server' },
  'valkey-8.1': { release: 'trixie', packageName: 'valkey-server', program: 'valkey-server' },
  'valkey-latest': { release: 'testing', packageName: 'valkey-server', program: 'valkey-server' },
}

const names = process.argv.slice(2)
const unknown = names.filter((name) => !Object.hasOwn(known, name))
if (unknown.length > 0) {
  console.error(`No server is called ${unknown.join(' or ')}. Choose of: ${Object.keys(known).join(', ')}`)
  process.exit(2)
}

process.chdir(root)
execFileSync(process.execPath, ['scripts/embed.mjs'], { stdio: 'inherit' })
const results = programs().map((program) => {
  const version = execFileSync(program, ['--version'], { encoding: 'utf8' }).split(' sha=')[0]
  console.log(`\n==== ${version}`)
  return `${passes(program) ? 'ok    ' : 'FAILED'} ${version}`
})
console.log(`\n${results.join('\n')}`)
process.exit(results.every((line) => line.startsWith('ok')) ? 0 : 1)

function programs() {
  const own = process.env.REDIS_SERVERS?.split(path.delimiter).filter((each) => each !== '') ?? []
  if (own.length > 0) return own
  const chosen = names.length > 0 ? names : Object.keys(known)
  return chosen.map((name) => debianProgram({ ...known[name], cache }))
}

/** Every test file of the Redis driver, each server of them of this program. */
function passes(program) {
  const env = { ...process.env, REDIS_SERVER: program }
  const vitest = path.join(root, 'node_modules/.bin/vitest')
  const { status } = spawnSync(vitest, ['run', '--project', 'integration', 'redis'], { stdio: 'inherit', env })
  return status === 0
}
