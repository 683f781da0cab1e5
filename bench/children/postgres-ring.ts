/**
 * Started by `postgres-contention`, several at once: the floor of a hand-over, without a lock. Each waits to be notified,
 * pauses, then updates a row and notifies the next. Prints how long every notification was under way, as JSON.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { monotonicMs } from '../../src/core/environment.ts'

export interface PostgresRingOrder {
  readonly url: string
  readonly place: number
  readonly places: number
  readonly startAt: number
  readonly endAt: number
  readonly holdMs: number
}

const { url, place, places, startAt, endAt, holdMs } = JSON.parse(process.argv[2] ?? '{}') as PostgresRingOrder
const [sender, listener] = [new Client(url), new Client(url)]
await Promise.all([sender.connect(), listener.connect()])
const underWayMs: number[] = []
const sending: Promise<unknown>[] = []

/** The same durable change and notification that a hand-over cannot do without. It says when it was sent. */
async function passOn(): Promise<void> {
  await sender.query({
    name: 'pass on',
    text: `with changed as (update floor set count = count + 1 where one = 1 returning count)
           select pg_notify($1, $2) from changed`,
    values: [`floor_${(place + 1) % places}`, String(monotonicMs())],
  })
}

listener.on('notification', ({ payload }) => {
  underWayMs.push(monotonicMs() - Number(payload))
  if (monotonicMs() < endAt) sending.push(pause(holdMs).then(passOn))
})
await listener.query(`listen floor_${place}`)
await pause(startAt - monotonicMs())
if (place === 0) await passOn()
// Longer than any notification takes: the last one is to be answered too.
await pause(endAt - monotonicMs() + 500)
await Promise.all(sending)
await Promise.all([sender.end(), listener.end()])
console.log(JSON.stringify(underWayMs))
