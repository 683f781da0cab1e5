// One client of a history run, in a process of its own that may be stopped or killed at any moment.
//
//   node history-client.js URL LOG NAME TRADE RUN_MS TTL_MS [unlocked]
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { setTimeout as pause } from 'node:timers/promises'
import { Acquirer } from '../../src/api/client/acquirer.ts'
import type { Sharing } from '../../src/api/client/acquisition.ts'
import { Client } from '../../src/api/client/client.ts'
import { driverFor } from '../../src/api/stores/connect-driver.ts'
import { LeaseHandle } from '../../src/api/lease/lease-handle.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { newRunner } from '../../src/api/client/runner.ts'
import { byteRange, named, type Scope } from '../../src/core/contract/scope.ts'
import { historyLog } from '../../src/testing/history/log.ts'

const [url = '', log = '', name = '', trade = '', runMs = '0', ttlMs = '0', unlocked] = process.argv.slice(2)

const history = historyLog(log)
const environment = systemEnvironment()
const driver = await driverFor(url)
await driver.open()
console.log('open')
const client = new Client({
  driver,
  environment,
  runner: newRunner(environment, undefined, undefined),
  namespace: 'history',
  allowForce: false,
  logger: undefined,
  runnerName: undefined,
})
const acquirer = new Acquirer(client, { ttl: Number(ttlMs) })
const terms = acquirer.terms()

// One attempt at a time: events of the client are about the last one.
let current = ''
client.events.on('waiting', () => history.write({ type: 'queued', attempt: current }))
// A waiter whose claim ended while the process was stopped has queued anew: it has its place since now at the latest.
client.events.on('acquired', ({ attempts }) => {
  if (attempts > 1) history.write({ type: 'queued', attempt: current })
})
client.events.on('lost', () => history.write({ type: 'lost', attempt: current }))
client.events.on('renewed', ({ remainingMs }) => {
  // `remainingMs` was read before this moment: the deadline must not come out later than it is.
  const now = monotonicMs() - 1
  history.write({ type: 'renewed', attempt: current, deadline: now + remainingMs })
})

const until = monotonicMs() + Number(runMs)
for (let turn = 0; monotonicMs() < until; turn += 1) {
  current = `${name}-${turn}`
  await takeTurn(current)
  await pause(Math.random() * 2)
}
await client.close()

async function takeTurn(id: string): Promise<void> {
  const { scope, sharing } = wanted()
  const { mode, limit } = sharing
  history.write({ type: 'acquire', client: name, attempt: id, key: scope.key, mode, limit, range: scope.range })
  if (unlocked === 'unlocked') {
    const now = monotonicMs()
    history.write({ type: 'granted', attempt: id, fence: Math.floor(now * 1000), deadline: now + 1000 })
    await pause(Math.random() * 3)
    history.write({ type: 'release', attempt: id })
    return
  }
  const lease = await acquirer.attempt({ scope, sharing, terms, waitMs: 10_000 })
  if (!(lease instanceof LeaseHandle)) {
    history.write({ type: 'refused', attempt: id })
    return
  }
  const now = monotonicMs()
  history.write({ type: 'granted', attempt: id, fence: lease.fence, deadline: now + lease.remainingMs })
  await pause(Math.random() * 3)
  if (lease.held) history.write({ type: 'checked', attempt: id })
  history.write({ type: 'release', attempt: id })
  await lease.release()
  history.write({ type: 'released', attempt: id })
}

function wanted(): { scope: Scope; sharing: Sharing } {
  switch (trade) {
    case 'semaphore':
      return { scope: named('semaphore'), sharing: { mode: 'shared', limit: 2 } }
    case 'readers and writers':
      return { scope: named('rw'), sharing: { mode: Math.random() < 0.3 ? 'exclusive' : 'shared' } }
    case 'ranges': {
      const start = Math.floor(Math.random() * 6) * 10
      const mode = Math.random() < 0.6 ? 'exclusive' : 'shared'
      return { scope: byteRange(7, start, start + 15), sharing: { mode } }
    }
    default:
      return { scope: named('mutex'), sharing: { mode: 'exclusive' } }
  }
}
