import { describe, expect, test } from 'vitest'
import { callTimedOut, redisError, isSlotMigrating, wasNotSent } from '../../src/drivers/redis/errors.ts'

/** As Redis 6.2 tells of an error in a script. */
function inScript(message: string): Error {
  const place = '@user_script:31: @user_script: 31: '
  return new Error(`ERR Error running script (call to f_ff967d0ae0e68b4f9e360fa91c54598bc25ad9b6): ${place}${message}`)
}

describe('what Redis says', () => {
  test.each([
    ["OOM command not allowed when used memory > 'maxmemory'.", 'full'],
    ["-READONLY You can't write against a read only replica.", 'read-only'],
    ['Script attempted to access a non local key in a cluster node', 'cluster'],
    ['ERR syntax error', 'configuration'],
    ['Wrong number of args calling Redis command From Lua script', 'script'],
  ])('in a script is understood wherever it stands: %s', (message, reason) => {
    expect(redisError(inScript(message))).toMatchObject({ code: 'UNAVAILABLE', reason })
  })

  test('by the last node of a cluster is what a cluster that cannot be reached has said', () => {
    const error = Object.assign(new Error('Failed to refresh slots cache.'), {
      lastNodeError: new Error('WRONGPASS invalid username-password pair or user is disabled.'),
    })
    const message =
      'UNAVAILABLE: WRONGPASS invalid username-password pair or user is disabled. Check user, password and ACL.'
    expect(redisError(error)).toMatchObject({ code: 'UNAVAILABLE', reason: 'auth', message })
  })

  test('about keys on two nodes is told from what one key alone meets', () => {
    expect(isSlotMigrating(new Error('TRYAGAIN Multiple keys request during rehashing of slot'))).toBe(true)
    expect(isSlotMigrating(new Error('Too many Cluster redirections. Last error: ReplyError: MOVED 1 a:1'))).toBe(true)
    expect(isSlotMigrating(inScript('LEASEHOLD half moved'))).toBe(false)
    expect(redisError(inScript('LEASEHOLD half moved'))).toMatchObject({ reason: 'cluster' })
  })

  test('is nothing at all where nothing was sent', () => {
    expect(wasNotSent(new Error("Stream isn't writeable and enableOfflineQueue options is false"))).toBe(true)
    expect(wasNotSent(new Error('Connection is closed.'))).toBe(false)
    // May be said of a second attempt.
    expect(wasNotSent(new Error("Cluster isn't ready and enableOfflineQueue options is false"))).toBe(false)
  })

  test('too late, or never, leaves the outcome open', () => {
    const message = 'UNAVAILABLE: Redis has not answered for 1235 ms.'
    const error = redisError(callTimedOut(1234.5678))
    expect(error).toMatchObject({ code: 'UNAVAILABLE', reason: 'network', message })
    expect(error.cause).toBeUndefined()
    expect(wasNotSent(callTimedOut(50))).toBe(false)
  })
})
