/**
 * Started by `postgres-contention`, several at once: the floor of a hand-over, without a lock. Each waits to be notified,
 * pauses, then updates a row and notifies the next. Prints how long every notification was under way, as JSON.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'

export interface PostgresRingOrder {
  readonly url: string
  readonly place: number
  readonly places: number
  /** How long the first process goes on. */
  readonly forMs: number
  readonly holdMs: number
}

const { url, place, places, forMs, holdMs } = JSON.parse(process.argv[2] ?? '{}') as PostgresRingOrder
const [sender, listener] = [new Client(url), new Client(url)]
await Promise.all([sender.connect(), listener.connect()])
const underWayMs: number[] = []
let endAt = Infinity

/** The same durable change and notification that a hand-over cannot do without. The payload has the time it was sent. */
async function passOn(end: boolean): Promise<void> {
  await sender.query({
    name: 'pass on',
    text: `with changed as (update floor set count = count + 1 where one = 1 returning count)
           select pg_notify($1, $2) from changed`,
    values: [`floor_${(place + 1) % places}`, end ? 'end' : String(monotonicMs())],
  })
}

/** Whether all processes listen. */
async function allListen(): Promise<boolean> {
  const text = `select count(*)::integer as sessions from pg_stat_activity where query like 'listen floor%'`
  const { rows } = await sender.query<{ sessions: number }>(text)
  return rows[0]?.sessions === places
}

const done = new Promise<void>((resolve, reject) => {
  const onNotification = async (payload: string): Promise<void> => {
    if (payload === 'end') {
      if (place > 0) await passOn(true)
      return resolve()
    }
    underWayMs.push(monotonicMs() - Number(payload))
    await pause(holdMs)
    await passOn(monotonicMs() >= endAt)
  }
  listener.on('notification', ({ payload = '' }) => void onNotification(payload).catch(reject))
})
await listener.query(`listen floor_${place}`)
if (place === 0) {
  while (!(await allListen())) await pause(20)
  endAt = monotonicMs() + forMs
  await passOn(false)
}
await done
await Promise.all([sender.end(), listener.end()])
console.log(JSON.stringify(underWayMs))
