/** The thread that renews: see `heartbeat-thread.ts`. It has a connection, a batcher and an alarm of its own. */
import { parentPort, workerData } from 'node:worker_threads'
import { Alarm, type Sleeper } from '../core/alarm.ts'
import { Batcher, type Requester } from '../core/batcher.ts'
import type { Request, Standing } from '../core/driver.ts'
import { systemEnvironment } from '../core/environment.ts'
import { messageOf } from '../core/errors.ts'
import { nextBeat, spreadOf } from '../core/life.ts'
import type { WatchedClaim } from '../core/tenure.ts'
import { driverFor } from './connect-driver.ts'
import type { Order, Report, WorkerSetup } from './heartbeat-thread.ts'

const { url, clock, port } = workerData as WorkerSetup
const environment = systemEnvironment(clock)
const driver = await driverFor(url)
await driver.open()
const batcher = new Batcher(driver, environment)
const alarm = new Alarm(environment)
const beats = new Map<string, Beat>()

/** One claim's renewals. */
class Beat implements Sleeper, Requester {
  alarmSlot = -1
  readonly claim: WatchedClaim
  readonly #spread = spreadOf(environment.random())

  constructor(claim: WatchedClaim) {
    this.claim = claim
    this.#renewAt(nextBeat(claim.heartbeatMs, this.#spread, claim.sentAt, environment.now()))
  }

  wake(): void {
    const { key, id, ttlMs } = this.claim
    batcher.submit({ op: 'renew', key, id, ttlMs }, this)
  }

  answered(_request: Request, standing: Standing, sentAt: number, at: number): void {
    const { id, key, ttlMs, heartbeatMs } = this.claim
    const isReplaced = beats.get(id) !== this
    if (isReplaced && standing.state !== 'unknown') return
    tell({ id, key, sent: { at: sentAt, ttlMs }, standing: sendable(standing) })
    if (isReplaced) return
    if (standing.state === 'absent') beats.delete(id)
    else if (standing.state === 'held') this.#renewAt(nextBeat(heartbeatMs, this.#spread, sentAt, at))
    else this.#renewAt(at + heartbeatMs / 10)
  }

  end(): void {
    alarm.set(this, Infinity)
  }

  #renewAt(at: number): void {
    alarm.set(this, at)
  }
}

driver.listen?.((key, id, news) => {
  if (news !== 'ask' && beats.has(id)) tell({ id, key, standing: sendable(news) })
})

port.on('message', (order: Order) => {
  if (order.type === 'watch') {
    beats.get(order.claim.id)?.end()
    beats.set(order.claim.id, new Beat(order.claim))
  } else if (order.type === 'unwatch') {
    beats.get(order.id)?.end()
    beats.delete(order.id)
  } else {
    void close()
  }
})
parentPort?.postMessage('ready')

async function close(): Promise<void> {
  alarm.clear()
  beats.clear()
  await batcher.settled()
  await driver.close()
  port.close()
}

function tell(report: Report): void {
  port.postMessage(report)
}

/** Not every error can cross to another thread; its message can. */
function sendable(standing: Standing): Standing {
  return standing.state === 'unknown' ? { state: 'unknown', error: new Error(messageOf(standing.error)) } : standing
}
