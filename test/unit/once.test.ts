import { describe, expect, test } from 'vitest'
import { locksBench } from './support/bench-of-locks.ts'

const minute = 60_000

describe('once', () => {
  test('runs on one machine of many, and tells which', async () => {
    const { client, advance } = locksBench()
    const machines = [await client(), await client(), await client()]
    let runs = 0
    const job = () => (runs += 1)
    const results = await Promise.all(
      machines.map((locks) => locks.once('report', { atMost: '5m', atLeast: '1m' }, job)),
    )
    expect(results.filter(({ ran }) => ran)).toEqual([{ ran: true, result: 1, fence: expect.any(Number) as number }])
    expect(runs).toBe(1)
    await advance(0)
  })

  test('absorbs clocks that differ: a short run keeps others off for atLeast', async () => {
    const { client, advance } = locksBench()
    const [one, late] = [await client(), await client()]
    const options = { atMost: '5m', atLeast: '1m' } as const
    expect(await one.once('report', options, () => 'done')).toMatchObject({ ran: true, result: 'done' })
    await one.close()
    await advance(minute - 1000)
    expect(await late.once('report', options, () => 'again')).toEqual({ ran: false })
    await advance(1001)
    expect(await late.once('report', options, () => 'next day')).toMatchObject({ ran: true, result: 'next day' })
  })

  test('a run longer than atLeast is over when it is over', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const options = { atMost: '5m', atLeast: '1m' } as const
    const running = one.once('report', options, () => advance(2 * minute))
    expect(await other.once('report', options, () => {})).toEqual({ ran: false })
    await running
    expect(await other.once('report', options, () => {})).toMatchObject({ ran: true })
  })

  test('holds for atMost: then the signal fires, the run is told it was late, and another may run', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    let stopped = false
    const slow = one.once('report', { atMost: '1m' }, async (lease) => {
      lease.signal.addEventListener('abort', () => (stopped = true))
      await advance(minute)
    })
    await expect(slow).rejects.toMatchObject({ code: 'LOST' })
    expect(stopped).toBe(true)
    expect(await other.once('report', { atMost: '1m' }, () => {})).toMatchObject({ ran: true })
  })

  test('a run that loses its lock near the end of atMost still keeps others off for atLeast', async () => {
    const { client, advance, environment } = locksBench()
    const [one, other] = [await client(), await client()]
    const began = environment.now()
    let finish = (): void => {}
    const run = one.once(
      'job',
      { atMost: '60s', atLeast: '60s' },
      () => new Promise<void>((resolve) => (finish = resolve)),
    )
    run.catch(() => {})
    await advance(58_000)
    finish()
    await expect(run).rejects.toMatchObject({ code: 'LOST' })
    for (const until of [58_500, 59_900]) {
      await advance(began + until - environment.now())
      expect(await other.once('job', { atMost: '60s' }, () => {})).toEqual({ ran: false })
    }
    await advance(began + 60_100 - environment.now())
    expect(await other.once('job', { atMost: '60s' }, () => {})).toMatchObject({ ran: true })
  })

  test('a failed run counts as a run, and its error is told', async () => {
    const { client } = locksBench()
    const locks = await client()
    const options = { atMost: '5m', atLeast: '1m' } as const
    const failing = locks.once('report', options, () => Promise.reject(new Error('no disk')))
    await expect(failing).rejects.toThrow('no disk')
    expect(await locks.once('report', options, () => {})).toEqual({ ran: false })
  })

  test('a failed run counts as a run by default, also after a store that would run it again', async () => {
    const { client, advance } = locksBench()
    const machines = [await client(), await client(), await client()]
    let runs = 0
    const failing = () => {
      runs += 1
      throw new Error('no disk')
    }
    const options = { atMost: '5m', atLeast: '1m', onError: 'keep' } as const
    await expect(machines[0]?.once('report', options, failing)).rejects.toThrow('no disk')
    for (const locks of machines) expect(await locks.once('report', options, failing)).toEqual({ ran: false })
    expect(runs).toBe(1)
    await advance(minute)
    await expect(machines[1]?.once('report', options, failing)).rejects.toThrow('no disk')
  })

  test('a failed run with onError release does not count: another machine may run at once', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const options = { atMost: '5m', atLeast: '1m', onError: 'release' } as const
    await expect(one.once('report', options, () => Promise.reject(new Error('no disk')))).rejects.toThrow('no disk')
    expect(await other.once('report', options, () => 'done')).toMatchObject({ ran: true, result: 'done' })
    // A run that succeeded counts.
    expect(await one.once('report', options, () => 'again')).toEqual({ ran: false })
    await advance(minute)
    expect(await one.once('report', options, () => 'next')).toMatchObject({ ran: true })
  })

  test('onError release frees nothing that the run has lost: whoever has the lock now keeps it', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const options = { atMost: '1m', onError: 'release' } as const
    let successor: unknown
    const late = one.once('report', options, async () => {
      await advance(minute)
      successor = await other.once('report', { atMost: '1m', atLeast: '1m' }, () => 'next')
      throw new Error('too late')
    })
    await expect(late).rejects.toThrow('too late')
    expect(successor).toMatchObject({ ran: true })
    expect(await one.once('report', options, () => {})).toEqual({ ran: false })
  })

  test('a client closed in the middle of a run leaves the claim to run out', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const options = { atMost: '5m', atLeast: '1m' } as const
    await one.once('report', options, () => one.close())
    expect(await other.once('report', options, () => {})).toEqual({ ran: false })
    await advance(5 * minute)
    expect(await other.once('report', options, () => {})).toMatchObject({ ran: true })
  })

  test('needs a function and times that fit', async () => {
    const locks = await locksBench().client()
    const run = () => {}
    await expect(locks.once('a', { atMost: '1m' }, undefined as never)).rejects.toMatchObject({ code: 'INVALID' })
    await expect(locks.once('a', { atMost: '1m', atLeast: '2m' }, run)).rejects.toMatchObject({ code: 'INVALID' })
    await expect(locks.once('a', {} as never, run)).rejects.toMatchObject({ code: 'INVALID' })
    const unknownPolicy = { atMost: '1m', onError: 'retry' } as never
    await expect(locks.once('a', unknownPolicy, run)).rejects.toThrow(
      /INVALID: onError is "retry".*'keep' or 'release'/,
    )
  })
})
