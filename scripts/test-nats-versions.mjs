// Runs the NATS tests (contract, model, client, faults, cluster) on another version of nats-server.
//
//   npm run test:nats-versions                     Debian unstable's
//   NATS_SERVERS=/a/nats-server npm run test:nats-versions     your own, instead
//
// The server comes from a release of Debian, through apt, into node_modules/.cache. Nothing is installed.
import { execFileSync, spawnSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

process.chdir(root)
execFileSync(process.execPath, ['scripts/embed.mjs'], { stdio: 'inherit' })
const results = programs().map((program) => {
  const version = execFileSync(program, ['--version'], { encoding: 'utf8' }).trim()
  console.log(`\n==== ${version}`)
  return `${passes(program) ? 'ok    ' : 'FAILED'} ${version}`
})
console.log(`\n${results.join('\n')}`)
process.exit(results.every((line) => line.startsWith('ok')) ? 0 : 1)

function programs() {
  const own = process.env.NATS_SERVERS?.split(path.delimiter).filter((each) => each !== '') ?? []
  if (own.length > 0) return own
  return [execFileSync(process.execPath, ['scripts/nats-program.mjs'], { encoding: 'utf8' }).trim()]
}

/** Every test file of the NATS driver, each server of them of this program. */
function passes(program) {
  const env = { ...process.env, NATS_SERVER: program }
  const vitest = path.join(root, 'node_modules/.bin/vitest')
  const { status } = spawnSync(vitest, ['run', '--project', 'integration', '--project', 'long', 'nats'], {
    stdio: 'inherit',
    env,
  })
  return status === 0
}
