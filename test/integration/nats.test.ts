import { afterAll, expect, test } from 'vitest'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import { rounds } from '../support/extent.ts'
import { natsHarness } from '../support/nats-harness.ts'
import { NatsServer } from '../support/nats-server.ts'

const server = await NatsServer.start()
afterAll(() => server.stop())

const restart = async (): Promise<void> => {
  await server.kill()
  await server.start()
}

conformance('nats', natsHarness(server, { restart }))

test('nats answers as the rule does on thousands of random commands', { timeout: 180_000 }, async () => {
  // Calls time out by the ttl of their claims: with ticks of a minute, a server that stands still for a second makes no difference.
  const { commands, counterexample } = await compareWithModel(natsHarness(server, { tickMs: 60_000 }), {
    runs: rounds(60, 300),
    timeLimitMs: 150_000,
  })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(rounds(1200, 6000))
})
