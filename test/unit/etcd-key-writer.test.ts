import { expect, test } from 'vitest'
import type { ClaimRecord } from '../../src/core/rule/claim-record.ts'
import type { Claim, Request } from '../../src/core/contract/driver.ts'
import { GarbageLease } from '../../src/drivers/etcd/leases/garbage-lease.ts'
import { EtcdKeyspace } from '../../src/drivers/etcd/keyspace.ts'
import { Leases } from '../../src/drivers/etcd/leases/leases.ts'
import { ClaimKeeper } from '../../src/drivers/etcd/leases/claim-keeper.ts'
import { recordsOf, type KeyReading } from '../../src/drivers/etcd/key-reading.ts'
import { KeyWriter } from '../../src/drivers/etcd/key-writer.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'

const ttlMs = 1000

function waiter(claim: Claim, order: number): ClaimRecord {
  const since = { enteredAt: 1, acquiredAt: 0, lastHeartbeat: 1, renewalCount: 0, expiresAt: ttlMs }
  return { claim, state: 'waiting', order, fence: 0, ttlMs, detached: false, ...since }
}

test('what a renewal writes does not grow with those whose end was not answered: etcd does so much at once', async () => {
  const time = fakeTime()
  const { environment } = time
  const node = { term: 1 }
  const client = {
    callsSent: 0,
    session: async () => node,
    call: async () => ({ data: Buffer.alloc(0), session: node, callNumber: 1 }),
  }
  const leases = new Leases({ client, now: () => environment.now(), secondsFor: () => 60 })
  await leases.secure(ttlMs, ttlMs)
  const lease = leases.idFor(ttlMs)
  const claims = new ClaimKeeper(environment, () => Promise.resolve('unknown'))
  const waiting = Array.from({ length: 200 }, () => claimOf('a', { ttlMs }))
  for (const claim of waiting) {
    const request: Request = { op: 'claim', claim }
    await claims.begin([request])
    claims.note([request], [{ state: 'waiting', ahead: 0, ttlMs, againMs: ttlMs }], () => lease, 0)
  }
  await time.advance(ttlMs)
  const [one] = waiting as [Claim]
  expect(claims.find(one.id)?.isUncertain).toBe(true)
  const document = { version: 1, lastFence: 1, claims: waiting.map(waiter) }
  const before: KeyReading = {
    revision: 5,
    seenAt: 5,
    document,
    markers: new Map(waiting.map(({ id }) => [id, lease])),
    records: recordsOf(document.claims),
    channels: new Map(),
  }
  const writer = new KeyWriter(
    {
      keyspace: new EtcdKeyspace('locks'),
      leases,
      garbage: new GarbageLease(
        client as never,
        () => 0,
        () => 0,
      ),
      claims,
      channel: 'ours',
      takeNotification: () => false,
    },
    new Map([[one.id, { op: 'renew', key: 'a', id: one.id, ttlMs }]]),
    () => ttlMs,
  )
  const { transaction } = await writer.transaction({
    key: 'a',
    document,
    revision: before,
    idle: false,
    notifications: [],
  })
  // Its own marker, and the document.
  expect(transaction.success).toHaveLength(2)
  claims.clear()
})
