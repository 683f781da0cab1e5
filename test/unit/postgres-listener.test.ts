import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Connections } from '../../src/drivers/postgres/connections.ts'
import { ChannelListener } from '../../src/drivers/postgres/listener.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a session that was given up is not listened to, though it still hears what its successor hears', async () => {
  const sessions: ((payload: string) => void)[] = []
  let silent = false
  const connections: Partial<Connections> = {
    async listen(_channel, onPayload) {
      sessions.push(onPayload)
      return { close: async () => {} }
    },
    // A probe comes back to whoever listens now.
    async query(_text, [, payload]) {
      if (!silent) sessions.at(-1)?.(String(payload))
      return []
    },
  }
  const received: string[] = []
  let gaps = 0
  const listener = new ChannelListener({
    connections: connections as Connections,
    channel: 'channel',
    onPayload: (payload) => received.push(payload),
    onGap: () => (gaps += 1),
  })
  await listener.start()
  sessions[0]?.('first')
  expect(received).toEqual(['first'])

  await vi.advanceTimersByTimeAsync(11_000)
  silent = true
  listener.check()
  await vi.advanceTimersByTimeAsync(1000)
  expect([listener.hears, gaps]).toEqual([false, 1])
  silent = false
  await vi.advanceTimersByTimeAsync(1000)
  expect([listener.hears, gaps, sessions.length]).toEqual([true, 2, 2])
  for (const onPayload of sessions) onPayload('second')
  expect(received).toEqual(['first', 'second'])
  await listener.close()
})
