import { expect, test } from 'vitest'
import { timedOut as httpTimedOut } from '../../src/drivers/http/faults.ts'
import { callTimedOut as redisTimedOut } from '../../src/drivers/redis/errors.ts'
import { formatDuration } from '../../src/core/time/duration.ts'

test('what people read of a time has no fractions of milliseconds', () => {
  const messages = [redisTimedOut(1234.5678).message, httpTimedOut('there', 1234.5678).message]
  for (const message of messages) expect(message).toContain(' 1235 ms.')
  expect([0.4, 999.7, 1234.5678, 61_234.5, 3_661_234.5].map(formatDuration)).toEqual([
    '0 ms',
    '1000 ms',
    '1.2 s',
    '1 min 1 s',
    '1 h 1 min',
  ])
})
