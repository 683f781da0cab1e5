import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Connections } from '../../src/drivers/postgres/connections.ts'
import { Listener } from '../../src/drivers/postgres/listener.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a session that was given up is not listened to, though it still hears what its successor hears', async () => {
  const sessions: ((payload: string) => void)[] = []
  let silent = false
  const connections: Partial<Connections> = {
    async listen(_channel, hear) {
      sessions.push(hear)
      return { close: async () => {} }
    },
    // A probe comes back to whoever listens now.
    async query(_text, [, payload]) {
      if (!silent) sessions.at(-1)?.(String(payload))
      return []
    },
  }
  const heard: string[] = []
  let regained = 0
  const listener = new Listener({
    connections: connections as Connections,
    channel: 'channel',
    heard: (payload) => heard.push(payload),
    regained: () => (regained += 1),
  })
  await listener.start()
  sessions[0]?.('first')
  expect(heard).toEqual(['first'])

  await vi.advanceTimersByTimeAsync(11_000)
  silent = true
  listener.check()
  await vi.advanceTimersByTimeAsync(1000)
  expect(listener.hears).toBe(false)
  silent = false
  await vi.advanceTimersByTimeAsync(1000)
  expect([listener.hears, regained, sessions.length]).toEqual([true, 1, 2])
  for (const hear of sessions) hear('second')
  expect(heard).toEqual(['first', 'second'])
  await listener.close()
})
