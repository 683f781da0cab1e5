import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { EtcdKeyspace } from '../../src/drivers/etcd/keyspace.ts'
import { ClaimKeeper } from '../../src/drivers/etcd/leases/claim-keeper.ts'
import { NotificationWatch } from '../../src/drivers/etcd/notification-watch.ts'
import { message, integerField } from '../../src/drivers/etcd/rpc/protobuf.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'

/** etcd turns a client away that pings more often than this, by much or by little, after a few times. */
const etcdAllowsMs = 5000

/** A watch over a connection on which the test speaks for etcd. */
function scene() {
  const pings: number[] = []
  const signals: string[] = []
  let say: (data: Buffer) => void = () => {}
  let end: () => void = () => {}
  const session = {
    stream: (_path: string, onMessage: (data: Buffer) => void, ended: () => void) => {
      ;[say, end] = [onMessage, ended]
      return { send() {}, close: ended }
    },
    ping: async () => pings.push(Date.now()) > 0,
  }
  const claims = new ClaimKeeper(fakeTime().environment, undefined)
  const watch = new NotificationWatch({
    client: { session: async () => session } as never,
    keyspace: new EtcdKeyspace('locks'),
    channel: 'ours',
    claims,
    onNotification() {},
    poll: (key) => signals.push(`poll ${key}`),
    onGap: () => signals.push('gap'),
  })
  const created = (): void => say(message(integerField(2, 1), integerField(3, 1)))
  const compacted = (): void => say(message(integerField(2, 1), integerField(4, 1), integerField(5, 7)))
  const answered = (key: string, status: ClaimStatus): void =>
    claims.note([{ op: 'claim', claim: claimOf(key) }], [status], () => 7, 0)
  return { watch, pings, signals, created, compacted, interrupt: () => end(), answered }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a connection on which nothing is said is tried, though not so often that etcd ends it', async () => {
  const { watch, pings } = scene()
  watch.start(1)
  await vi.advanceTimersByTimeAsync(60_000)
  watch.close()
  expect(pings.length).toBeGreaterThan(2)
  const gaps = pings.slice(1).map((at, index) => at - (pings[index] ?? 0))
  expect(Math.min(...gaps)).toBeGreaterThan(1.5 * etcdAllowsMs)
})

test('a watch that was interrupted reports a gap once it is there again, and none at first', async () => {
  const { watch, signals, created, interrupt } = scene()
  watch.start(1)
  await vi.advanceTimersByTimeAsync(0)
  created()
  expect(signals).toEqual([])
  interrupt()
  await vi.advanceTimersByTimeAsync(100)
  expect(signals).toEqual([])
  created()
  expect(signals).toEqual(['gap'])
  watch.close()
})

test('after a compaction the claims that are held are polled besides', async () => {
  const { watch, signals, created, compacted, answered } = scene()
  answered('held', { state: 'held', fence: 1, ttlMs: 1000 })
  answered('waiting', { state: 'waiting', ahead: 0, ttlMs: 1000, againMs: 1000 })
  watch.start(1)
  await vi.advanceTimersByTimeAsync(0)
  created()
  compacted()
  expect(signals).toEqual(['poll held', 'gap'])
  watch.close()
})
