import { describe, expect, test } from 'vitest'
import type { Locks } from '../../src/index.ts'
import type { Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import { webLocks } from '../../src/web-locks/index.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench, type LocksBench } from './support/bench-of-locks.ts'

/** Has clients' requests answered only when told to, and notes what is asked of a driver that was closed. */
function withSlowAnswers(bench: LocksBench) {
  const answers: (() => void)[] = []
  const afterClose: Request['op'][] = []
  const slow = { slow: false, answers, afterClose }
  bench.wrap = (driver) => {
    let closed = false
    return around(driver, {
      async send(requests) {
        if (closed) afterClose.push(...requests.map(({ op }) => op))
        const statuses = await driver.send(requests)
        if (slow.slow) await new Promise<void>((resolve) => answers.push(resolve))
        return closed ? requests.map((): ClaimStatus => ({ state: 'unknown', error: new Error('closed') })) : statuses
      },
      close() {
        closed = true
        return driver.close()
      },
    })
  }
  return slow
}

const codeOf = (error: unknown) => (error as { code?: unknown }).code

describe('a client that is closed', () => {
  test('asks nothing more of its store, and sets no timer, when that answers afterwards', async () => {
    const bench = locksBench()
    const line = withSlowAnswers(bench)
    const locks = await bench.client()
    const lease = await locks.acquire('a')
    line.slow = true
    const releasing = lease.release()
    const waiting = locks.acquire('b').catch(codeOf)
    await bench.advance(0)
    const closing = locks.close()
    await bench.advance(5000)
    await closing
    for (let answer = line.answers.shift(); answer !== undefined; answer = line.answers.shift()) {
      answer()
      await bench.advance(0)
    }
    expect([await waiting, await isSettled(releasing)]).toEqual(['CLOSED', true])
    expect(bench.timers).toBe(0)
    await bench.advance(60_000)
    expect(line.afterClose).toEqual([])
  })

  test('while it takes a lease over gives nobody that lease, and leaves it to its ttl', async () => {
    const bench = locksBench()
    const line = withSlowAnswers(bench)
    const [one, other] = [await bench.client(), await bench.client()]
    const proof = await (await one.acquire('a', { ttl: '10s' })).handOff()
    line.slow = true
    const resuming = other.resume(proof).catch(codeOf)
    await bench.advance(0)
    const closing = other.close()
    for (const answer of line.answers) answer()
    await closing
    expect(await resuming).toBe('CLOSED')
    line.slow = false
    expect((await one.inspect('a'))?.holders).toMatchObject([{ fence: proof.fence }])
    await one.close()
    expect([bench.timers, line.afterClose]).toEqual([0, []])
  })

  test('while acquireAll gives back what it cannot keep asks for nothing more', async () => {
    const bench = locksBench()
    const line = withSlowAnswers(bench)
    const [one, other] = [await bench.client(), await bench.client()]
    await one.acquire('b')
    line.slow = true
    const all = other.acquireAll(['a', 'b', 'c']).catch(codeOf)
    await bench.advance(0)
    line.answers.shift()?.()
    await bench.advance(0)
    const closing = other.close()
    line.slow = false
    for (const answer of line.answers) answer()
    await bench.advance(0)
    await closing
    expect(await isSettled(all)).toBe(true)
    expect(await all).toBe('CLOSED')
    expect((await one.list()).locks.map(({ scope, waiters }) => [scope, waiters.length])).toEqual([['b', 0]])
    await one.close()
    expect([bench.timers, line.afterClose]).toEqual([0, []])
  })

  test('has nobody observe its elections for ever', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const election = locks.elect('boss')
    await locks.close()
    const observing = (async () => {
      for await (const leader of election) return leader
      return undefined
    })()
    const outcome = observing.catch(codeOf)
    await bench.advance(5000)
    expect(await isSettled(outcome)).toBe(true)
    expect(await outcome).toBe('CLOSED')
    expect(bench.timers).toBe(0)
  })

  test.each<[string, (locks: Locks, again: () => void) => Promise<unknown>]>([
    ['onDeposed', (locks, again) => locks.elect('boss', { onDeposed: again }).campaign()],
    [
      'an event',
      async (locks, again) => {
        for (const name of ['released', 'passed-on', 'failed', 'lost'] as const) locks.on(name, again)
        await locks.acquire('a')
        await locks.readWrite('b').read()
      },
    ],
    [
      'the logger',
      async (locks) => {
        await locks.acquire('a')
      },
    ],
  ])('grants nothing to whoever asks when told so by %s', async (how, hold) => {
    const bench = locksBench()
    const outcomes: Promise<unknown>[] = []
    let closing = false
    const again = (): void => {
      if (!closing) return
      outcomes.push(
        locks.acquire(`more ${outcomes.length}`).catch(codeOf),
        locks.tryAcquire(`other ${outcomes.length}`).catch(codeOf),
      )
    }
    const logger = { debug: again, info: again, warn: again }
    const locks = await bench.client(how === 'the logger' ? { logger } : {})
    await hold(locks, again)
    closing = true
    const closed = locks.close()
    await bench.advance(10_000)
    await closed
    expect(outcomes.length).toBeGreaterThan(0)
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['CLOSED']))
    const other = await bench.client()
    expect((await other.list()).locks).toEqual([])
    await other.close()
    expect(bench.timers).toBe(0)
  })

  test('once more by a listener is one closing', async () => {
    const bench = locksBench()
    let closes = 0
    bench.wrap = (driver) => around(driver, { close: () => ((closes += 1), driver.close()) })
    const locks = await bench.client()
    await locks.elect('boss', { onDeposed: () => locks.close() }).campaign()
    await locks.close()
    expect(closes).toBe(1)
  })

  test('while it only waits leaves no place in the queue', async () => {
    const bench = locksBench()
    const line = withSlowAnswers(bench)
    const [one, other] = [await bench.client(), await bench.client()]
    await one.acquire('a')
    const waiting = other.acquire('a').catch(codeOf)
    await bench.advance(0)
    await other.close()
    expect(await waiting).toBe('CLOSED')
    expect((await one.inspect('a'))?.waiters).toEqual([])
    expect(line.afterClose).toEqual([])
  })

  test('lets a lock go however often its owner has entered it', async () => {
    const bench = locksBench()
    const [one, other] = [await bench.client(), await bench.client()]
    let held: boolean | undefined
    await one.run('a', { owner: 'me' }, () =>
      one.run('a', { owner: 'me', reentrant: true }, async (lease) => {
        await one.close()
        held = lease.held
      }),
    )
    expect(held).toBe(false)
    expect(await other.tryAcquire('a')).not.toBeNull()
  })

  test('by the first of two bodies granted together does not begin the second, which has no lock any more', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const begun: string[] = []
    const first = locks.run('a', () => {
      begun.push('a')
      void locks.close()
    })
    const second = locks.run('b', () => void begun.push('b')).catch(codeOf)
    await bench.advance(0)
    await first
    expect([await second, begun]).toEqual(['CLOSED', ['a']])
  })

  test('by the first of two callbacks of web locks does not call the second', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const manager = webLocks(locks)
    const called: string[] = []
    const first = manager.request('a', () => {
      called.push('a')
      void locks.close()
    })
    const second = manager.request('b', () => void called.push('b')).catch((error: unknown) => (error as Error).name)
    await bench.advance(0)
    await first
    expect([await second, called]).toEqual(['AbortError', ['a']])
  })
})
