/** Started by `mongodb`, several at once: callers that take turns on one lock; sends when each had it, and the commands. */
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { MongoClient } from 'mongodb'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { createLocks } from '../../src/index.ts'
import { ready } from '../support/child.ts'

export interface MongodbTurnsOrder {
  readonly url: string
  /** `polling`: a bare findOneAndUpdate every 10 ms until it succeeds. */
  readonly kind: 'leasehold' | 'polling'
  readonly callers: number
  readonly turnsMs: number
  readonly holdMs: number
}

/** One hold, on the clock all processes share. */
export type Turn = readonly [acquiredAt: number, releasedAt: number, caller: number, fence: number]

export interface MongodbTurns {
  readonly turns: readonly Turn[]
  /** What this process sent to the server while it took turns. */
  readonly commands: number
}

interface Taken {
  readonly fence: number
  release(): Promise<unknown>
}

const order = JSON.parse(process.argv[2] ?? '') as MongodbTurnsOrder
const pollEveryMs = 10
const ttlMs = 60_000
const client = new MongoClient(order.url, { monitorCommands: true })
let commands = 0
client.on('commandStarted', () => (commands += 1))

async function leasehold(): Promise<{ take: () => Promise<Taken>; close: () => Promise<void> }> {
  const locks = await createLocks({ driver: mongodb(client, { collection: 'turns' }) })
  return { take: () => locks.acquire('turns', { ttl: ttlMs }), close: () => locks.close() }
}

function polling(): { take: () => Promise<Taken>; close: () => Promise<void> } {
  const collection = client.db().collection<{ _id: string }>('polled')
  const writeConcern = { w: 'majority', journal: true } as const
  const free = { $lt: ['$expiresAt', '$$NOW'] }
  const take = async (): Promise<Taken> => {
    const owner = Math.random()
    for (;;) {
      const expiresAt = { $cond: [free, { $add: ['$$NOW', ttlMs] }, '$expiresAt'] }
      const update = [{ $set: { owner: { $cond: [free, owner, '$owner'] }, expiresAt } }]
      const options = { upsert: true, returnDocument: 'after', writeConcern } as const
      const document = await collection.findOneAndUpdate({ _id: 'turns' }, update, options).catch(() => null)
      if ((document as { owner?: number } | null)?.owner === owner) break
      await pause(pollEveryMs)
    }
    // The document is kept: if it were deleted, all callers would insert at once, and most would get E11000.
    const freed = { $set: { expiresAt: new Date(0) } }
    return { fence: monotonicMs(), release: () => collection.updateOne({ _id: 'turns' }, freed, { writeConcern }) }
  }
  return { take, close: async () => {} }
}

const { take, close } = order.kind === 'leasehold' ? await leasehold() : polling()
await client.connect()
ready()
const [{ startAt }] = (await once(process, 'message')) as [{ startAt: number }]
await pause(Math.max(0, startAt - monotonicMs()))
commands = 0
const endAt = startAt + order.turnsMs
const turns: Turn[] = []

async function takeTurns(caller: number): Promise<void> {
  while (monotonicMs() < endAt) {
    const taken = await take()
    const acquiredAt = monotonicMs()
    await pause(order.holdMs)
    turns.push([acquiredAt, monotonicMs(), caller, taken.fence])
    await taken.release()
  }
}

await Promise.all(Array.from({ length: order.callers }, (_, caller) => takeTurns(caller)))
const sent = commands
await close()
await client.close()
process.send?.({ turns, commands: sent } satisfies MongodbTurns, () => process.disconnect())
