import { expect, test } from 'vitest'
import type { ClaimRecord } from '../../src/core/rule/claim-record.ts'
import { EtcdKeyspace } from '../../src/drivers/etcd/keyspace.ts'
import type { KeyValue, Transaction, TxnReply } from '../../src/drivers/etcd/rpc/messages.ts'
import { KeptClaim } from '../../src/drivers/etcd/leases/claim-keeper.ts'
import { recordsOf, type KeyReading } from '../../src/drivers/etcd/key-reading.ts'
import { LivenessCheck } from '../../src/drivers/etcd/leases/liveness-check.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'

const keyspace = new EtcdKeyspace('locks')
const [blocker, ours] = [claimOf('a', { ttlMs: 3000 }), claimOf('a', { ttlMs: 3000 })]

/** The store: what each of its keys is at, and how many changes it has seen. */
class FakeStore {
  readonly stored = new Map<string, KeyValue>()
  readonly calls: Transaction[] = []
  isSilent = false
  #revision = 10

  put(key: string, text: string): void {
    this.stored.set(key, { key, value: Buffer.from(text), modRevision: (this.#revision += 1), lease: 7 })
  }

  /** By what the four kinds of calls look like: two readings, a question, an end. */
  async execute(transaction: Transaction): Promise<TxnReply> {
    this.calls.push(transaction)
    if (this.isSilent) throw new Error('no answer')
    const names = [keyspace.marker('a', blocker.id), keyspace.probe('a', blocker.id)]
    const pairs = names.map((name) => this.stored.get(name))
    const reply = (replies: TxnReply['replies']): TxnReply => ({
      header: { term: 2, revision: 1 },
      succeeded: true,
      replies,
    })
    if (transaction.compare.length === 0) {
      return reply(
        pairs.map((pair) => ({ range: { header: { term: 2, revision: 1 }, pairs: pair === undefined ? [] : [pair] } })),
      )
    }
    if (transaction.success.length === 1) this.put(names[1] ?? '', '')
    else if (transaction.compare.every((one) => pairs.some((pair) => pair && one.includes(pair.modRevision)))) {
      for (const name of names) this.stored.delete(name)
    }
    return reply([])
  }
}

function scene() {
  const store = new FakeStore()
  const time = fakeTime()
  let term = 1
  const liveness = new LivenessCheck({
    transactions: store,
    keyspace,
    leases: { leftMs: () => undefined },
    garbage: { leaseFor: async () => 9 },
    environment: time.environment,
    term: () => term,
    timeoutMs: 1000,
  })
  const since = { order: 1, fence: 0, ttlMs: 3000, detached: false, enteredAt: 1, acquiredAt: 0, lastHeartbeat: 1 }
  const record = { ...since, renewalCount: 0, expiresAt: 0 }
  const claims: ClaimRecord[] = [
    { ...record, claim: blocker, state: 'held' },
    { ...record, claim: ours, state: 'waiting' },
  ]
  const reading: KeyReading = {
    revision: 1,
    seenAt: 1,
    document: { version: 1, lastFence: 1, claims },
    markers: new Map([
      [blocker.id, 7],
      [ours.id, 8],
    ]),
    records: recordsOf(claims),
    channels: new Map(),
  }
  const own = new KeptClaim('a', ours.id, undefined, () => {})
  const marker = keyspace.marker('a', blocker.id)
  return {
    store,
    time,
    liveness,
    isAlive: () => store.stored.has(marker),
    mark: (text: string) => store.put(marker, text),
    check: () => liveness.check('a', reading, [own]),
    changeLeader: () => (term += 1),
  }
}

test('a claim that outlives a change of leader is over once it has not answered for a whole ttl, and not before', async () => {
  const { store, time, check, mark, changeLeader, isAlive } = scene()
  mark('1')
  check()
  await time.advance(10_000)
  expect(store.calls).toEqual([])
  changeLeader()
  check()
  await time.advance(3000)
  check()
  expect(isAlive()).toBe(true)
  await time.advance(500)
  expect(isAlive()).toBe(false)
})

test('a claim whose marker is put anew lives, and is asked again only after the next change', async () => {
  const { store, time, check, mark, changeLeader, isAlive } = scene()
  mark('1')
  check()
  changeLeader()
  check()
  await time.advance(1000)
  mark('1')
  await time.advance(10_000)
  expect(isAlive()).toBe(true)
  const asked = store.calls.length
  check()
  await time.advance(10_000)
  expect(store.calls).toHaveLength(asked)
  changeLeader()
  check()
  await time.advance(10_000)
  expect(isAlive()).toBe(false)
})

test('a claim of a driver that knows of no questions is left to etcd', async () => {
  const { time, check, mark, changeLeader, isAlive } = scene()
  mark('')
  check()
  changeLeader()
  check()
  await time.advance(60_000)
  expect(isAlive()).toBe(true)
})

test('what etcd does not answer is tried again, and nothing is left of it when the store is closed', async () => {
  const { store, time, liveness, check, mark, changeLeader, isAlive } = scene()
  mark('1')
  store.isSilent = true
  check()
  changeLeader()
  check()
  await time.advance(5000)
  store.isSilent = false
  await time.advance(5000)
  expect(isAlive()).toBe(false)
  mark('1')
  changeLeader()
  check()
  await time.advance(0)
  expect(time.timers).toBe(1)
  liveness.close()
  expect(time.timers).toBe(0)
})
