import { afterAll, expect, test } from 'vitest'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import { etcdHarness } from '../support/etcd-harness.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import { rounds } from '../support/extent.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

const restart = async (): Promise<void> => {
  await server.kill()
  await server.start()
}

conformance('etcd', etcdHarness(server.url, { restart }))

test('etcd answers as the rule does on thousands of random commands', { timeout: 180_000 }, async () => {
  // Calls time out by the ttl of their claims: with ticks of a minute, a server that stands still for a second makes no difference.
  const { commands, counterexample } = await compareWithModel(
    { ...etcdHarness(server.url), tickMs: 60_000 },
    {
      runs: rounds(60, 150),
      timeLimitMs: 150_000,
    },
  )
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(rounds(1200, 3000))
})
