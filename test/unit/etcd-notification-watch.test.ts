import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { EtcdKeyspace } from '../../src/drivers/etcd/keyspace.ts'
import { NotificationWatch } from '../../src/drivers/etcd/notification-watch.ts'
import { ClaimKeeper } from '../../src/drivers/etcd/leases/claim-keeper.ts'
import { fakeTime } from '../../src/testing/index.ts'

/** Who pings more often than this, by much or by little, is turned away by etcd after a few times. */
const etcdAllowsMs = 5000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a connection on which nothing is said is tried, though not so often that etcd ends it', async () => {
  const pings: number[] = []
  const session = {
    stream: () => ({ send() {}, close() {} }),
    ping: async () => pings.push(Date.now()) > 0,
  }
  const notifications = new NotificationWatch({
    client: { session: async () => session } as never,
    keyspace: new EtcdKeyspace('locks'),
    channel: 'ours',
    claims: new ClaimKeeper(fakeTime().environment, undefined),
    onNotification() {},
    poll() {},
  })
  notifications.start(1)
  await vi.advanceTimersByTimeAsync(60_000)
  notifications.close()
  expect(pings.length).toBeGreaterThan(2)
  const gaps = pings.slice(1).map((at, index) => at - (pings[index] ?? 0))
  expect(Math.min(...gaps)).toBeGreaterThan(1.5 * etcdAllowsMs)
})
