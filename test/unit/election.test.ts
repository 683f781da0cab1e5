import { describe, expect, test } from 'vitest'
import type { Leader } from '../../src/index.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'

describe('an election', () => {
  test('has one leader, whose term is a fence', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [(await client()).elect('boss'), (await client()).elect('boss')]
    const term = await one.campaign()
    expect(one.isLeader).toBe(true)
    expect(one.term).toBe(term.fence)
    const second = other.campaign()
    await advance(60_000)
    expect(await isSettled(second)).toBe(false)
    expect([other.isLeader, other.term]).toEqual([false, undefined])
    expect(await other.leader()).toMatchObject({ term: term.fence, isMe: false })
    expect(await one.leader()).toMatchObject({ term: term.fence, isMe: true })
  })

  test('passes to the next candidate at once when the leader resigns', async () => {
    const { client } = locksBench()
    const [one, other] = [(await client()).elect('boss'), (await client()).elect('boss')]
    const first = await one.campaign()
    const second = other.campaign()
    await one.resign()
    expect(one.isLeader).toBe(false)
    expect((await second).fence).toBeGreaterThan(first.fence)
    expect(first.signal.aborted, 'who resigns was not deposed').toBe(false)
    await one.resign()
  })

  test('replaces a leader that crashed within its ttl', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), (await client()).elect('boss', { ttl: '3s' })]
    await one.elect('boss', { ttl: '3s', heartbeat: 'manual' }).campaign()
    const second = other.campaign()
    await advance(2999)
    expect(await isSettled(second)).toBe(false)
    await advance(2)
    expect(other.isLeader).toBe(true)
  })

  test('can be stood for again as soon as a candidate has resigned, elected or not', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [(await client()).elect('boss'), (await client()).elect('boss')]
    const first = await one.campaign()
    const given = other.campaign().catch((error: unknown) => (error as { code?: string }).code)
    await other.resign()
    const again = other.campaign()
    expect(await given).toBe('ABORTED')
    await advance(1000)
    expect(await isSettled(again)).toBe(false)
    await one.resign()
    expect((await again).fence).toBeGreaterThan(first.fence)
    // It stands again by itself, as any candidate does.
    await other.resign()
    await one.campaign()
    expect([one.isLeader, other.isLeader]).toEqual([true, false])
  })

  test('resigned from at the moment it is granted, is not entered, and can be stood for again', async () => {
    const { client, advance } = locksBench()
    const calls: string[] = []
    const locks = await client()
    const election = locks.elect('boss', { onElected: () => void calls.push('elected') })
    const granted = locks.on('acquired', () => {
      granted[Symbol.dispose]()
      void election.resign()
    })
    const outcome = election.campaign().catch((error: unknown) => (error as { code?: string }).code)
    const again = outcome.then(() => election.campaign())
    await advance(100)
    expect(await outcome).toBe('ABORTED')
    expect((await again).held).toBe(true)
    expect(calls).toEqual(['elected'])
  })

  test('can be tried without waiting', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [(await client({ defaults: { wait: '1h' } })).elect('boss'), (await client()).elect('boss')]
    expect(await one.tryCampaign()).toBe(true)
    expect(await one.tryCampaign()).toBe(true)
    expect(await other.tryCampaign()).toBe(false)
    expect(other.isLeader).toBe(false)
    await one.resign()
    expect(await one.leader()).toBeNull()
    expect(await other.tryCampaign()).toBe(true)
    await advance(0)
  })

  test('turns isLeader false at loss, by the clock, before anything is told', async () => {
    const { client, block } = locksBench()
    const election = (await client()).elect('boss', { ttl: '3s' })
    await election.campaign()
    block(10_000)
    expect(election.isLeader).toBe(false)
  })

  test('is stood for again after a loss, and not after resigning', async () => {
    const { client, advance } = locksBench()
    const [one, operator] = [await client(), await client({ allowForce: true })]
    const told: string[] = []
    const election = one.elect('boss', {
      onElected: ({ fence, held }) => void told.push(`elected ${held} ${fence}`),
      onDeposed: ({ fence, held }, reason) => void told.push(`deposed ${held} ${fence} ${reason}`),
    })
    const first = await election.campaign()
    await operator.evict(election.scope, { reason: 'test' })
    await advance(10)
    const second = election.term
    expect(second).toBeGreaterThan(first.fence)
    await election.resign()
    await advance(60_000)
    expect(told).toEqual([
      `elected true ${first.fence}`,
      `deposed false ${first.fence} evicted: test`,
      `elected true ${second}`,
      `deposed false ${second} resigned`,
    ])
    expect(await election.leader()).toBeNull()
  })

  test('goes on through a store that fails for a while', async () => {
    const bench = locksBench()
    let broken = false
    bench.wrap = (driver) =>
      around(driver, {
        send: (requests) => (broken ? Promise.reject(new Error('no route')) : driver.send(requests)),
      })
    const election = (await bench.client()).elect('boss', { ttl: '3s' })
    await election.campaign()
    broken = true
    await bench.advance(120_000)
    expect(election.isLeader).toBe(false)
    broken = false
    await bench.advance(10_000)
    expect(election.isLeader).toBe(true)
  })

  test('calls nobody who does not lead', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [(await client()).elect('boss'), await client()]
    await one.campaign()
    const told: string[] = []
    const election = other.elect('boss', {
      onElected: () => void told.push('elected'),
      onDeposed: () => void told.push('deposed'),
    })
    expect(await election.tryCampaign()).toBe(false)
    await expect(Promise.all([election.campaign({ wait: 100 }), advance(200)])).rejects.toMatchObject({
      code: 'TIMEOUT',
    })
    const abort = new AbortController()
    const aborted = election.campaign({ signal: abort.signal }).catch((error: unknown) => error)
    await advance(10)
    abort.abort()
    expect(await aborted).toMatchObject({ code: 'ABORTED' })
    const resigned = election.campaign().catch((error: unknown) => error)
    await advance(10)
    await election.resign()
    expect(await resigned).toMatchObject({ code: 'ABORTED' })
    await one.resign()
    await advance(60_000)
    expect(told).toEqual([])
    expect(await election.leader()).toBeNull()
  })

  test('is awaited by each caller for as long as that wants, while one campaign is under way', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [(await client()).elect('boss'), (await client()).elect('boss')]
    await one.campaign()
    const codeOf = (error: unknown) => (error as { code?: string }).code
    const abort = new AbortController()
    const first = other.campaign()
    const impatient = other.campaign({ wait: 100 }).catch(codeOf)
    const aborted = other.campaign({ signal: abort.signal }).catch(codeOf)
    await advance(50)
    abort.abort()
    await advance(100)
    expect([await impatient, await aborted]).toEqual(['TIMEOUT', 'ABORTED'])
    await one.resign()
    await advance(0)
    expect((await first).held).toBe(true)
  })

  test('is still wanted by a caller whose campaign was begun by one that gave up', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [(await client()).elect('boss'), (await client()).elect('boss')]
    await one.campaign()
    const impatient = other.campaign({ wait: 100 }).catch((error: unknown) => (error as { code?: string }).code)
    const patient = other.campaign()
    await advance(200)
    expect(await impatient).toBe('TIMEOUT')
    await one.resign()
    await advance(0)
    expect((await patient).held).toBe(true)
  })

  test('is not entered by a grant that is over already: a candidate stands again', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    let grants = 0
    // The event loop stands still for longer than the term, just when it begins.
    locks.on('acquired', () => (grants += 1) % 2 === 1 && bench.block(10_000))
    const told: boolean[] = []
    const election = locks.elect('boss', { ttl: '3s', onElected: ({ held }) => void told.push(held) })
    const campaign = election.campaign()
    await bench.advance(5000)
    expect((await campaign).held).toBe(true)
    expect([election.isLeader, told]).toEqual([true, [true]])
    await election.resign()
    expect(await election.tryCampaign()).toBe(false)
    expect(told).toEqual([true])
  })

  test('that is won in the moment in which the candidate resigns is given back, and nobody is called', async () => {
    const { client } = locksBench()
    const locks = await client()
    const told: string[] = []
    const election = locks.elect('boss', {
      onElected: () => void told.push('elected'),
      onDeposed: (_term, reason) => void told.push(reason),
    })
    locks.on('acquired', () => void election.resign())
    await expect(election.campaign()).rejects.toMatchObject({ code: 'ABORTED' })
    expect([election.isLeader, await election.leader()]).toEqual([false, null])
    expect(told).toEqual([])
  })

  test('is over for a leader whose client is closed, and the next one leads', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client()]
    const reasons: string[] = []
    const election = one.elect('boss', { onDeposed: (_term, reason) => void reasons.push(reason) })
    await election.campaign()
    const next = other.elect('boss').campaign()
    await one.close()
    expect((await next).held).toBe(true)
    expect([election.isLeader, reasons]).toEqual([false, ['closed']])
  })

  test('survives callbacks that throw', async () => {
    const election = (await locksBench().client()).elect('boss', {
      onElected: () => {
        throw new Error('broken')
      },
      onDeposed: () => Promise.reject(new Error('broken too')),
    })
    await election.campaign()
    await election.resign()
    expect(election.isLeader).toBe(false)
  })

  test('tells observers who leads and every change, and never lets them lead', async () => {
    const { client, advance } = locksBench()
    const [one, other, observer] = [await client(), await client(), await client()]
    const seen: (number | null)[] = []
    const watching = (async () => {
      for await (const leader of observer.elect('boss')) seen.push(leader?.term ?? null)
    })()
    await advance(1000)
    const [first, second] = [one.elect('boss'), other.elect('boss')]
    const { fence } = await first.campaign()
    await advance(1000)
    const next = second.campaign()
    await advance(1000)
    await first.resign()
    const { fence: nextFence } = await next
    await advance(5000)
    expect(seen).toEqual([null, fence, nextFence])
    await observer.close()
    await watching
  })

  test('answers every call of next, each with a change of its own, and all of them when the client is closed', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const election = locks.elect('boss')
    const watch = election[Symbol.asyncIterator]()
    const changes = [watch.next(), watch.next(), watch.next(), watch.next()]
    await bench.advance(2000)
    const { fence } = await election.campaign()
    await bench.advance(2000)
    await locks.close()
    const told = await Promise.all(changes)
    expect(told.map(({ done, value }) => (done === true ? 'done' : value?.term))).toEqual([
      undefined,
      fence,
      'done',
      'done',
    ])
    expect(bench.timers).toBe(0)
  })

  test('tells its own changes at once, and stops telling when nobody listens', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const election = locks.elect('boss', { observeEvery: '1h' })
    const seen: (Leader | null)[] = []
    const watching = (async () => {
      for await (const leader of election) {
        seen.push(leader)
        if (seen.length === 2) break
      }
    })()
    await bench.advance(0)
    await election.campaign()
    await bench.advance(0)
    await watching
    expect(seen.map((leader) => leader?.isMe)).toEqual([undefined, true])
    await locks.close()
    expect(bench.timers).toBe(0)
  })
})
