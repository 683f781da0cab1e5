import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Job, Locks, Task } from '../../src/index.ts'
import { collectGarbage } from '../support/collect-garbage.ts'
import { deferred } from '../support/deferred.ts'
import { eventually } from '../support/eventually.ts'
import { isSettled, locksBench, type LocksBench } from './support/bench-of-locks.ts'

/** Advances until the loops have nothing more to do at once. */
async function settle({ advance }: LocksBench, milliseconds = 0): Promise<void> {
  await advance(milliseconds)
}

describe('a work loop', () => {
  test('does each task once, with as many handlers as allowed, and hands them rising fences', async () => {
    const bench = locksBench()
    const done: string[] = []
    const fences: number[] = []
    let most = 0
    let running = 0
    const open = new Set(Array.from({ length: 12 }, (_, index) => `task-${index}`))
    const start = async () => {
      const locks = await bench.client()
      return locks.work('mails', { source: () => [...open], concurrency: 2 }, async ({ item, fence, task }) => {
        running += 1
        most = Math.max(most, running)
        expect(task.id).toBe(item)
        await Promise.resolve()
        running -= 1
        fences.push(fence)
        done.push(item)
        open.delete(item)
      })
    }
    const loops = [await start(), await start()]
    await settle(bench, 5000)
    expect(done.toSorted()).toEqual([...new Set(done)].toSorted())
    expect(done).toHaveLength(12)
    expect(most).toBeLessThanOrEqual(4)
    expect(new Set(fences.map((fence) => Number.isSafeInteger(fence)))).toEqual(new Set([true]))
    await Promise.all(loops.map((loop) => loop.stop()))
    expect(loops.map((loop) => loop.running)).toEqual([0, 0])
  })

  test('takes items from a cursor only when a handler is free', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const gates = [deferred(), deferred(), deferred()]
    let taken = 0
    async function* cursor(): AsyncGenerator<{ id: string; index: number }> {
      for (let index = 0; index < 3; index += 1) {
        taken += 1
        yield { id: String(index), index }
      }
      await new Promise<never>(() => {})
    }
    const loop = locks.work('rows', { source: cursor, stopWithin: '1s' }, ({ item }) => gates[item.index]?.promise)
    await settle(bench)
    expect([taken, loop.running]).toEqual([1, 1])
    gates[0]?.resolve()
    await settle(bench)
    expect([taken, loop.running]).toEqual([2, 1])
    gates[1]?.resolve()
    gates[2]?.resolve()
    await settle(bench)
    // The cursor never ends, and the loop stops all the same.
    const stopped = loop.stop()
    await settle(bench, 1000)
    expect(await isSettled(stopped)).toBe(true)
  })

  test('pauses in a source that never ends and gives only what it has already, so that its handler gets on', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const gate = deferred()
    let given = 0
    const source = function* (): Generator<string> {
      // A loop that asked on and on would never let anything else happen.
      while ((given += 1) < 100_000) yield 'the same'
      throw new Error('Too much was asked for.')
    }
    const errors: unknown[] = []
    const onError = (error: unknown): void => void errors.push(error)
    const loop = locks.work('rows', { source, concurrency: 2, onError, stopWithin: '1s' }, () => gate.promise)
    await settle(bench, 1000)
    expect([loop.running, errors]).toEqual([1, []])
    gate.resolve()
    const stopped = loop.stop()
    await settle(bench, 1000)
    expect(await isSettled(stopped)).toBe(true)
    expect(errors).toEqual([])
  })

  test('keeps nothing of a task that is done, though its handler listened to the signal', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const signals: WeakRef<AbortSignal>[] = []
    const source = (): string[] => (signals.length < 20 ? [`task-${signals.length}`] : [])
    const loop = locks.work('mails', { source }, ({ signal }) => {
      signal.addEventListener('abort', () => {})
      signals.push(new WeakRef(signal))
    })
    await settle(bench, 5000)
    expect(signals).toHaveLength(20)
    await eventually(() => {
      collectGarbage()
      // That of the last task may still be on the stack.
      return signals.filter((signal) => signal.deref() !== undefined).length <= 1
    }, 'the signals to be collected')
    await loop.stop()
  })

  test('gives back a task whose handler throws, reports the error, and leaves the task alone for a while', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const errors: unknown[] = []
    const tries: number[] = []
    const fault = new Error('No mail server')
    const options = {
      source: () => ['7'],
      pause: { min: '1s', max: '8s' },
      onError: (error: unknown, item: unknown) => errors.push([error, item]),
    } as const
    const loop = locks.work('mails', options, () => {
      tries.push(bench.environment.now())
      if (tries.length < 4) throw fault
    })
    await settle(bench)
    expect(errors).toEqual([[fault, '7']])
    const other = await (await bench.client()).claim('mails', '7')
    expect(other.state, 'another worker may have it at once').toBe('claimed')
    await (other as Task).release()
    await settle(bench, 60_000)
    expect(tries).toHaveLength(4)
    const [first = 0, second = 0, third = 0] = tries
    expect(second - first).toBeGreaterThanOrEqual(1000)
    expect(third - second).toBeGreaterThanOrEqual(1600)
    expect((await (await bench.client()).claim('mails', '7')).state).toBe('completed')
    await loop.stop()
  })

  test('pauses longer and longer while there is nothing to do, and not at all after a task', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const asked: number[] = []
    let tasks: string[] = []
    const source = () => {
      asked.push(bench.environment.now())
      return tasks
    }
    const loop = locks.work('mails', { source, pause: { min: 100, max: 1000 } }, () => {
      tasks = []
    })
    await settle(bench, 10_000)
    expect(asked.length).toBeGreaterThan(8)
    expect(asked.length, 'about 100, 200, 400, 800 and then every second').toBeLessThan(25)
    tasks = ['1']
    await settle(bench, 2000)
    const [before = 0, after = 0] = asked.slice(asked.findIndex((_, index) => asked[index] === asked[index + 1]))
    expect(after).toBe(before)
    await loop.stop()
  })

  test('reports a source and a store that fail, and goes on', async () => {
    const bench = locksBench()
    let isDown = false
    bench.wrap = (driver) => ({
      ...driver,
      name: driver.name,
      supports: driver.supports,
      open: () => driver.open(),
      close: () => driver.close(),
      list: (query) => driver.list(query),
      send: (requests) =>
        isDown
          ? Promise.resolve(requests.map(() => ({ state: 'unknown' as const, error: new Error('The store is down') })))
          : driver.send(requests),
    })
    const locks = await bench.client()
    const errors: string[] = []
    let calls = 0
    const source = () => {
      calls += 1
      if (calls === 1) throw new Error('The table is locked')
      return ['7']
    }
    const done = vi.fn()
    const onError = (error: unknown) => {
      errors.push(String(error))
      throw new Error('and onError fails too')
    }
    const warnings: string[] = []
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation((warning) => void warnings.push(String(warning)))
    onTestFinished(() => warn.mockRestore())
    isDown = true
    const loop = locks.work('mails', { source, onError }, done)
    await settle(bench, 60_000)
    isDown = false
    await settle(bench, 60_000)
    expect(errors[0]).toContain('The table is locked')
    expect(errors.some((error) => error.includes('The store is down'))).toBe(true)
    expect(warnings.some((warning) => warning.includes('onError threw'))).toBe(true)
    expect(done).toHaveBeenCalledOnce()
    await loop.stop()
  })

  test('reports a task that was lost, and does not complete it', async () => {
    const bench = locksBench()
    const [locks, operator] = [await bench.client(), await bench.client({ allowForce: true })]
    const errors: unknown[] = []
    let signal: AbortSignal | undefined
    const gate = deferred()
    const onError = (error: unknown) => errors.push(error)
    const loop = locks.work('mails', { source: () => ['7'], pause: { min: '1h', max: '1h' }, onError }, async (job) => {
      signal = job.signal
      await gate.promise
    })
    await settle(bench)
    expect(await operator.evict('task:mails:7', { reason: 'too slow' })).toBe(1)
    await settle(bench, 15_000)
    expect(signal?.aborted).toBe(true)
    gate.resolve()
    await settle(bench)
    expect(errors).toMatchObject([{ code: 'LOST' }])
    expect((await operator.claim('mails', '7')).state).toBe('claimed')
    await loop.stop()
  })

  const stops: Readonly<Record<string, (locks: Locks, abort: AbortController, stop: () => Promise<void>) => unknown>> =
    {
      'stop()': (_locks, _abort, stop) => stop(),
      'its signal': (_locks, abort) => abort.abort(),
      'close()': (locks) => locks.close(),
    }
  describe.each(Object.entries(stops))('stopped by %s', (_name, stop) => {
    async function stopped(): Promise<{ bench: LocksBench; job: Job<string>; gate: () => void; over: Promise<void> }> {
      const bench = locksBench()
      const locks = await bench.client()
      const abort = new AbortController()
      const gate = deferred()
      let job: Job<string> | undefined
      const options = { source: () => ['7', '8'], signal: abort.signal, stopWithin: '20s', onError: () => {} } as const
      const loop = locks.work('mails', options, (given) => {
        job = given
        return gate.promise
      })
      await settle(bench)
      stop(locks, abort, () => loop.stop())
      if (job === undefined) throw new Error('No handler was called')
      return { bench, job, gate: () => gate.resolve(), over: loop.stopped }
    }

    test('waits for its handlers, which complete their tasks, and claims no more', async () => {
      const { bench, job, gate, over } = await stopped()
      await settle(bench, 15_000)
      expect([await isSettled(over), job.signal.aborted]).toEqual([false, false])
      gate()
      await settle(bench)
      expect(await isSettled(over)).toBe(true)
      const other = await bench.client()
      expect((await other.claim('mails', '7')).state).toBe('completed')
      expect((await other.claim('mails', '8')).state).toBe('claimed')
    })

    test('waits no longer than stopWithin: the signal fires and the task is given back', async () => {
      const { bench, job, over } = await stopped()
      await settle(bench, 20_000)
      expect([await isSettled(over), job.signal.aborted]).toEqual([true, true])
      expect(job.signal.reason).toMatchObject({ code: 'ABORTED' })
      expect((await (await bench.client()).claim('mails', '7')).state).toBe('claimed')
    })
  })

  test('leaves no timer behind', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const loop = locks.work('mails', { source: () => ['1', '2', '3'] }, () => {})
    await settle(bench, 5000)
    await loop.stop()
    await loop.stop()
    await locks.close()
    expect(bench.timers).toBe(0)
    expect(() => locks.work('mails', { source: () => [] }, () => {})).toThrow('closed')
  })

  test('keeps its hands off a task that its handler has released or completed', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const errors: unknown[] = []
    const onError = (error: unknown) => errors.push(error)
    const options = { source: () => ['1', '2'], pause: { min: '1h', max: '1h' }, onError } as const
    const handled: string[] = []
    const loop = locks.work('mails', options, async ({ item, task }) => {
      handled.push(item)
      await (item === '1' ? task.release() : task.complete({ remember: '1d' }))
    })
    await settle(bench)
    await loop.stop()
    expect(errors).toEqual([])
    expect(handled, 'what was given back is not claimed again at once').toEqual(['1', '2'])
    const other = await bench.client()
    expect((await other.claim('mails', '1')).state).toBe('claimed')
    await bench.advance(2 * 3_600_000)
    expect((await other.claim('mails', '2')).state, 'for as long as the handler said').toBe('completed')
  })

  test('refuses what cannot work, at once', async () => {
    const { client } = locksBench()
    const locks = await client()
    const source = () => []
    const bad: readonly [object, string][] = [
      [{}, 'needs a source'],
      [{ source, concurrency: 0 }, 'concurrency is 0'],
      [{ source, concurrency: 1.5 }, 'concurrency is 1.5'],
      [{ source, concurency: 1 }, 'concurency'],
      [{ source, pause: { min: '2s', max: '1s' } }, 'pause.min is 2000 ms, more than pause.max'],
      [{ source, pause: { minimum: 1 } }, 'minimum'],
      [{ source, ttl: 'soon' }, 'ttl'],
      [{ source, stopWithin: -1 }, 'stopWithin'],
      [{ source, remember: 'always' }, 'remember'],
    ]
    for (const [options, message] of bad) {
      expect(() => locks.work('mails', options as { source: () => string[] }, () => {})).toThrow(message)
    }
    expect(() => locks.work('mails', { source }, undefined as never)).toThrow('needs a function')
    await locks.close()
  })
})
