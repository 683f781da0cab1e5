import { execFileSync } from 'node:child_process'
import { cpSync, readdirSync, utimesSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Workshop } from './cli-process.ts'

let workshop: Workshop
beforeEach(() => {
  workshop = new Workshop()
})
afterEach(() => workshop.close())

/** Whether this user may make containers of the kind that a test needs. */
function can(...options: string[]): boolean {
  try {
    execFileSync('unshare', [...options, 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const asContainer = ['--pid', '--fork', '--mount-proc', '--kill-child']
const inContainer = `LEASEHOLD_STATE_DIR="$PWD/state" exec unshare ${asContainer.join(' ')} leasehold`

test.skipIf(!can(...asContainer))(
  'a container that was killed has its name again when it is started anew',
  async () => {
    const hold = `--ttl 10m --runner worker -- sh -c 'echo > held; sleep 600'`
    const first = workshop.inShell(`${inContainer} run demo ${hold}`)
    await workshop.written('held')
    const refused = await workshop.inShell(`${inContainer} run demo ${hold}`).ended()
    expect(refused).toMatchObject({ code: 75, errors: expect.stringContaining('"worker" is in use by process ') })
    first.kill('SIGKILL')
    await first.ended()
    // As if it had been down for a while. Else the next one looks for 20 s whether the name is renewed.
    const names = path.join(workshop.directory, 'state', 'runners')
    for (const name of readdirSync(names)) utimesSync(path.join(names, name), 1_700_000_000, 1_700_000_000)
    const again = workshop.inShell(`${inContainer} run demo --runner worker --on-conflict reclaim --no-wait -- true`)
    expect(await again.ended()).toMatchObject({ code: 0 })
  },
)

test.skipIf(!can('--uts'))('a machine that is a copy of another is another runner under the same name', async () => {
  const hold = (name: string) => `run ${name} --runner worker -- sh -c 'echo > ${name}; sleep 600'`
  workshop.inShell(`LEASEHOLD_STATE_DIR="$PWD/state" exec leasehold ${hold('one')}`)
  await workshop.written('one')
  cpSync(path.join(workshop.directory, 'state'), path.join(workshop.directory, 'copy'), { recursive: true })
  workshop.inShell(
    `LEASEHOLD_STATE_DIR="$PWD/copy" exec unshare --uts sh -c 'hostname copy; exec leasehold "$@"' - ${hold('other')}`,
  )
  await workshop.written('other')
  const [one, other] = await Promise.all([workshop.lock('one'), workshop.lock('other')])
  expect(one.holders[0]?.runner.id).toMatch(/^runner_/)
  expect(other.holders[0]?.runner.id).not.toBe(one.holders[0]?.runner.id)
})
