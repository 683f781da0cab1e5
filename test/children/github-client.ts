// One worker of a run over issues, in a process of its own that may be stopped or killed at any moment.
//
//   node github-client.js URL REPOSITORY ISSUE TOKEN LOG NAME PACE RUN_MS SETTLE_MS TTL_MS HOLD_MS
//
// PACE is "hasty" for a GitHub that does not mind, or "polite".
import { setTimeout as pause } from 'node:timers/promises'
import { Octokit } from '@octokit/core'
import { retry } from '@octokit/plugin-retry'
import { createLocks } from '../../src/api/create-locks.ts'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { issue } from '../../src/core/contract/scope.ts'
import { github } from '../../src/drivers/github/driver.ts'
import { historyLog } from '../../src/testing/history/log.ts'

const [baseUrl = '', repository = '', number = '', token = '', log = '', name = '', pace, ...numbers] =
  process.argv.slice(2)
const [runMs = 0, settleMs = 0, ttlMs = 0, holdMs = 0] = numbers.map(Number)

const history = historyLog(log)
// In haste without the throttling plugin: its second between two writes would leave little to see.
const octokit = new (Octokit.plugin(retry))({
  auth: token,
  baseUrl,
  retry: { retryAfterBaseValue: 50 },
  log: { debug() {}, info() {}, warn() {}, error() {} },
})
const access = pace === 'hasty' ? { octokit, poll: { min: 40, max: 200 } } : { token, baseUrl }
const locks = await opened()
console.log('open')

// One attempt at a time: events of the client are about the last one.
let current = ''
locks.on('lost', () => history.write({ type: 'lost', attempt: current }))
locks.on('renewed', ({ remainingMs }) => {
  // `remainingMs` was read before this moment: the deadline must not come out later than it is.
  const now = monotonicMs() - 1
  history.write({ type: 'renewed', attempt: current, deadline: now + remainingMs })
})

const until = monotonicMs() + runMs
for (let turn = 0; monotonicMs() < until; turn += 1) {
  current = `${name}-${turn}`
  history.write({ type: 'acquire', client: name, attempt: current, key: 'issue', mode: 'exclusive' })
  try {
    const lease = await locks.acquire(issue(Number(number)), { ttl: ttlMs, wait: 2.4 * ttlMs })
    const now = monotonicMs()
    history.write({ type: 'granted', attempt: current, fence: lease.fence, deadline: now + lease.remainingMs })
    await pause(Math.random() * holdMs)
    if (lease.held) history.write({ type: 'checked', attempt: current })
    history.write({ type: 'release', attempt: current })
    await lease.release()
    history.write({ type: 'released', attempt: current })
  } catch {
    history.write({ type: 'refused', attempt: current })
  }
}
await locks.close()

async function opened(): ReturnType<typeof createLocks> {
  for (;;) {
    const driver = github(repository, { ...access, settle: settleMs, assign: false, heldLabel: false })
    try {
      return await createLocks({ driver })
    } catch {
      await driver.close()
    }
  }
}
