import { describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { LeaseholdError } from '../../src/core/errors.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import type { MajorityGrant } from '../../src/drivers/quorum/grants.ts'
import { Node } from '../../src/drivers/quorum/node.ts'
import { Quorum } from '../../src/drivers/quorum/quorum.ts'
import { countVote } from '../../src/drivers/quorum/renewing.ts'
import { Cast, cut, mute, slow } from './quorum/cast.ts'

const held = { state: 'held' }
const refused = { state: 'absent', reason: 'refused' }
const unknown = { state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'no-majority' } }
const five = [0, 0, 0, 0, 0]

describe('a claim', () => {
  test('is held by a majority, without waiting for a node that is slow', async () => {
    const cast = new Cast()
    const ask = await cast.driver([undefined, undefined, slow(10_000)])
    expect(await ask.claim('one')).toMatchObject(held)
    expect(cast.world.now).toBe(0)
  })

  test('is held while two of five nodes are dead, and not while three are', async () => {
    const cast = new Cast(five)
    const ask = await cast.driver()
    cast.store(1).down = true
    cast.store(4).down = true
    expect(await ask.claim('one')).toMatchObject(held)
    await ask.release('one')
    cast.store(5).down = true
    expect(await ask.claim('two')).toMatchObject(unknown)
  })

  test('is refused, not unavailable, while one of three is dead and another holds', async () => {
    const cast = new Cast()
    const [one, other] = [await cast.driver(), await cast.driver()]
    cast.store(1).down = true
    expect(await one.claim('one')).toMatchObject(held)
    expect(await other.claim('two')).toEqual(refused)
  })

  test('that a minority granted is released there at once', async () => {
    const cast = new Cast()
    await cast.holdOn(1, 'other')
    await cast.holdOn(2, 'other')
    const ask = await cast.driver()
    expect(await ask.claim('one')).toEqual(refused)
    await cast.world.pass(0)
    expect(await cast.holdersOn(3)).toEqual([])
  })

  test('of which nobody knows how it ended is released wherever it may be', async () => {
    const cast = new Cast()
    const ask = await cast.driver([mute, mute, undefined])
    expect(await ask.claim('one')).toMatchObject(unknown)
    expect(await cast.holdersOn(1)).toHaveLength(1)
    // The replies to the releases are lost too, but they arrive once the nodes have given up on the claim.
    await cast.world.pass(3100)
    for (const place of [1, 2, 3]) expect(await cast.holdersOn(place)).toEqual([])
  })

  test('is released on a dead node when that comes back within the ttl', async () => {
    const cast = new Cast()
    let cuts = 0
    // Granted there, then the connection is lost, reply and all.
    const once = { losesReply: () => (cuts += 1) === 1 }
    const ask = await cast.driver([once, undefined, undefined])
    await cast.holdOn(2, 'other', { ttlMs: 60_000 })
    await cast.holdOn(3, 'other', { ttlMs: 60_000 })
    expect(await ask.claim('one', { ttlMs: 20_000 })).toEqual(refused)
    expect(await cast.holdersOn(1)).toHaveLength(1)
    cast.store(1).down = true
    await cast.world.pass(6000)
    cast.store(1).down = false
    await cast.world.pass(2500)
    expect(await cast.holdersOn(1)).toEqual([])
  })

  test('is told as long as the shortest lease of its majority, less what passed and the drift', async () => {
    const cast = new Cast([0, 0, 0], { drift: 0.1 })
    const ask = await cast.driver([slow(10), slow(10), slow(10)])
    expect(await ask.claim('one')).toMatchObject({ ...held, ttlMs: 1000 - 20 - 100 })
  })

  test('is told for no longer than a majority keeps it, whatever one node says', async () => {
    const cast = new Cast()
    const lasting = [1000, 600, 200]
    const links = cast.stores.map((store, place) => cutTo(store.link(), lasting[place] ?? 0))
    const two = await cast.driverOver([
      ...links.slice(0, 2),
      cast.store(3).link({ ...never, losesRequest: () => true }),
    ])
    expect(await two.claim('one')).toMatchObject({ ...held, ttlMs: 600 })
    expect(await two.renew('one')).toMatchObject({ ...held, ttlMs: 600 })
    expect(await two.claim('one')).toMatchObject({ ...held, ttlMs: 600 })
  })

  test('whose nodes take as long as the lease is not told, and not left behind', async () => {
    const cast = new Cast([0, 0, 0], { answerWithin: 5000 })
    const ask = await cast.driver([slow(600), slow(600), slow(600)])
    expect(await ask.claim('one')).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    await cast.world.pass(5000)
    expect(await cast.holdersOn(1)).toEqual([])
  })

  test('sends one batch to each node, however many claims there are', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    const claims = Array.from({ length: 40 }, (_, index) => ({
      op: 'claim' as const,
      claim: { ...claimOf(`id ${index}`), key: `key ${index}` },
    }))
    const sent = ask.driver.send(claims)
    await cast.world.run(sent)
    expect(new Set((await sent).map(({ state }) => state))).toEqual(new Set(['held']))
    expect(cast.stores.map((store) => store.sent.map((batch) => batch.length))).toEqual([[40], [40], [40]])
  })

  test('does not ask a node again that has not answered, until it has', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    cast.store(3).stopFor(5000)
    await cast.holdOn(1, 'other', { ttlMs: 3000 })
    // Two answers differ, so the third is waited for; the next time it is not.
    expect(await ask.claim('one')).toEqual(refused)
    expect(cast.world.now).toBe(100)
    expect(await ask.claim('two')).toEqual(refused)
    expect(cast.world.now).toBe(100)
    await cast.world.pass(6000)
    expect(
      cast
        .store(3)
        .sent.flat()
        .filter(({ op }) => op === 'claim'),
    ).toHaveLength(1)
    expect(await cast.holdersOn(3)).toEqual([])
    expect(await ask.claim('three')).toMatchObject(held)
    expect(await cast.holdersOn(3)).toHaveLength(1)
  })

  test.each([
    ['shared', { mode: 'shared' as const }],
    ['of a range', { range: { start: 0, end: 1 } }],
    ['that converts another', { replaces: 'other' }],
    ['that makes others leave', { evict: 'lower-priority' as const }],
  ])('%s is refused and leaves nothing', async (_name, changes) => {
    const cast = new Cast()
    const ask = await cast.driver()
    expect(await ask.claim('one', changes)).toMatchObject({ state: 'unknown', error: { code: 'UNSUPPORTED' } })
    expect(cast.store(1).sent).toEqual([])
  })
})

describe('a renewal', () => {
  test('that reached a minority is unknown, and the lease stands', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    await ask.claim('one')
    cast.store(1).down = true
    cast.store(2).down = true
    expect(await ask.renew('one')).toMatchObject(unknown)
    cast.store(1).down = false
    expect(await ask.renew('one')).toMatchObject(held)
  })

  test('of which a majority knows nothing is over, and cleared from the rest', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    await ask.claim('one')
    for (const place of [1, 2]) {
      const [claim] = await cast.holdersOn(place)
      await cast
        .store(place)
        .link()
        .send([{ op: 'evict', key: 'default/named:x', fence: Number(claim?.split(' ')[1]), reason: 'behind its back' }])
    }
    expect(await ask.renew('one')).toMatchObject({ state: 'absent', reason: 'evicted', detail: 'behind its back' })
    await cast.world.pass(0)
    expect(await cast.holdersOn(3)).toEqual([])
  })

  test('that comes too late does not end a grace, on no node', async () => {
    const cast = new Cast()
    const ask = await cast.driver([undefined, undefined, slow(30)])
    await ask.claim('one', { graceMs: 2000 })
    await cast.world.pass(1100)
    expect(await ask.renew('one')).toEqual({ state: 'absent', reason: 'expired' })
    expect(await ask.claim('one', { graceMs: 2000 })).toEqual({ state: 'absent', reason: 'expired' })
    await cast.world.pass(200)
    for (const place of [1, 2, 3]) expect(await cast.holdersOn(place)).toHaveLength(1)
    expect(await (await cast.driver()).claim('two')).toEqual(refused)
  })

  test('that comes too late leaves the grace to a node that has not answered', async () => {
    const cast = new Cast()
    const ask = await cast.driver([undefined, undefined, slow(30)])
    await ask.claim('one', { graceMs: 2000 })
    await cast.world.pass(1100)
    expect(await ask.renew('one')).toEqual({ state: 'absent', reason: 'expired' })
    await cast.world.pass(200)
    expect(await cast.holdersOn(3)).toHaveLength(1)
  })

  test('gives the claim to a node that came back empty, which counts from the next one on', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 2000 })
    await cast.world.pass(2000)
    const ask = await cast.driver()
    await ask.claim('one')
    cast.store(1).restartEmpty()
    expect(await ask.renew('one')).toMatchObject(held)
    await cast.world.pass(0)
    expect(await cast.holdersOn(1)).toHaveLength(1)
    cast.store(2).down = true
    expect(await ask.renew('one')).toMatchObject(held)
  })

  test('gives the claim to such a node only if that is free: nobody is evicted for it, though the claim was forced', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 2000 })
    await cast.world.pass(2000)
    const ask = await cast.driver()
    await ask.claim('one', { evict: 'all' })
    cast.store(1).restartEmpty()
    await cast.holdOn(1, 'other')
    expect(await ask.renew('one')).toMatchObject(held)
    await cast.world.pass(0)
    expect((await cast.holdersOn(1)).map((holder) => holder.split(' ')[0])).toEqual(['other'])
  })

  test('keeps a lease through the restart of every node, one after the other', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 2000 })
    await cast.world.pass(2000)
    const [ask, other] = [await cast.driver(), await cast.driver()]
    const fence = await ask.fence('one')
    for (const place of [1, 2, 3, 1, 2, 3]) {
      cast.store(place).restartEmpty()
      for (let beat = 0; beat < 3; beat += 1) {
        expect(await ask.renew('one')).toMatchObject({ ...held, fence })
        expect((await other.claim(`other ${cast.world.now}`)).state).not.toBe('held')
        await cast.world.pass(300)
      }
    }
  })

  test('is not what a claim that is sent again does: a node that got it late does not count then either', async () => {
    const cast = new Cast([0, 0, 0], { answerWithin: 50 })
    let messages = 0
    const lateAtFirst = { delayMs: () => ((messages += 1) <= 2 ? 40 : 0) }
    const ask = await cast.driver([undefined, undefined, lateAtFirst])
    expect(await ask.claim('one')).toMatchObject(held)
    await cast.world.pass(200)
    expect(await cast.holdersOn(3)).toHaveLength(1)
    cast.store(2).down = true
    expect(await ask.claim('one')).toMatchObject({ state: 'unknown' })
  })

  test('by a client that did not make the claim is none the worse for one node that never had it', async () => {
    const cast = new Cast()
    const ask = await cast.driver([cut])
    expect(await ask.claim('one')).toMatchObject(held)
    await cast.world.pass(200)
    expect(await cast.holdersOn(1)).toEqual([])
    // The one answers first.
    const other = await cast.driver([undefined, slow(20), slow(20)])
    expect(await other.renew('one')).toMatchObject(held)
  })

  test('of a lease that is over counts no late vote: another may have held meanwhile', async () => {
    const cast = new Cast()
    const environment = cast.world.environment()
    const majority = new Quorum([], environment, { driftRate: 0, answerWithinMs: undefined })
    const node = new Node(cast.store(1).link(), 1, environment, 0)
    const claim = { ...claimOf('late'), key: 'default/named:x' }
    const until = environment.now() + 1000
    const grant: MajorityGrant = { claim, fence: 7, ttlMs: 1000, grantedAt: 0, until, votes: new Map() }
    majority.grants.put(grant, environment.now())
    await cast.world.pass(1000)
    countVote(majority, grant, node, { state: 'held', fence: 7, ttlMs: 500 })
    expect(grant.votes.size).toBe(0)
    grant.until += 1
    countVote(majority, grant, node, { state: 'held', fence: 7, ttlMs: 500 })
    expect(grant.votes.size).toBe(1)
  })

  test('does not count a node that got the claim late, while others could have had it', async () => {
    const cast = new Cast([0, 0, 0], { answerWithin: 50 })
    let messages = 0
    // The claim alone is late, on its way there and back: what is asked afterwards is answered at once.
    const lateAtFirst = { delayMs: () => ((messages += 1) <= 2 ? 40 : 0) }
    const ask = await cast.driver([undefined, undefined, lateAtFirst])
    expect(await ask.claim('one')).toMatchObject(held)
    await cast.world.pass(200)
    expect(await cast.holdersOn(3)).toHaveLength(1)
    cast.store(2).down = true
    expect(await ask.renew('one')).toMatchObject({ state: 'unknown' })
    expect(
      cast
        .store(3)
        .sent.flat()
        .map(({ op }) => op),
    ).toEqual(['claim', 'renew'])
  })

  test('of a grant with a longest hold ends with it, also on nodes that were given the claim later', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    await ask.claim('one', { maxHoldMs: 1500 })
    await cast.world.pass(600)
    cast.store(1).restartEmpty()
    await ask.renew('one')
    await cast.world.pass(600)
    await ask.renew('one')
    await cast.world.pass(299)
    expect(await cast.holdersOn(1)).toHaveLength(1)
    await cast.world.pass(2)
    const renewal = { op: 'renew', key: 'default/named:x', id: 'one', ttlMs: 1000 } as const
    expect(await cast.store(1).link().send([renewal])).toEqual([{ state: 'absent', reason: 'max-hold' }])
    expect(await ask.renew('one')).toMatchObject({ state: 'absent', reason: 'max-hold' })
  })
})

describe('a release', () => {
  test('is answered by a majority and reaches the rest in the background', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    await ask.claim('one', { ttlMs: 10_000 })
    cast.store(3).down = true
    expect(await ask.release('one')).toEqual({ state: 'absent', reason: 'released' })
    cast.store(3).down = false
    await cast.world.pass(500)
    expect(await cast.holdersOn(3)).toEqual([])
  })

  test('that reached a minority is unknown', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    await ask.claim('one')
    cast.store(3).down = true
    cast.store(2).down = true
    expect(await ask.release('one')).toMatchObject(unknown)
  })
})

describe('a node that cannot be told of an end', () => {
  /** A quorum whose third node refuses releases for a while. */
  async function quorumThatForgets(cast: Cast) {
    const links = cast.stores.map((store) => store.link())
    const [, , third] = links
    if (third === undefined) throw new Error('There is no third node.')
    const away: LockDriver = {
      ...third,
      send: (requests) =>
        cast.world.now < 1200 && requests.some(({ op }) => op === 'release')
          ? Promise.reject(new Error('away'))
          : third.send(requests),
    }
    return cast.driverOver([...links.slice(0, 2), away])
  }

  test('is told during the grace of a lease, too: until then it blocks others', async () => {
    const cast = new Cast()
    const ask = await quorumThatForgets(cast)
    expect(await ask.claim('one', { graceMs: 2000 })).toMatchObject(held)
    await ask.release('one')
    await cast.world.pass(2200)
    expect(await cast.holdersOn(3)).toEqual([])
  })

  test('is told during the grace of a claim that came to nothing', async () => {
    const cast = new Cast()
    for (const place of [1, 2]) await cast.holdOn(place, 'other', { ttlMs: 60_000 })
    const ask = await quorumThatForgets(cast)
    expect(await ask.claim('one', { graceMs: 2000 })).toEqual(refused)
    await cast.world.pass(2200)
    expect(await cast.holdersOn(3)).toEqual([])
  })
})

describe('a node that came back empty', () => {
  test('does not vote earlier for a clock that is set forward meanwhile', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: '2m' })
    await cast.world.pass(120_000)
    let setForwardMs = 0
    const [first, ...others] = cast.stores.map((store) => store.link()) as [LockDriver, ...LockDriver[]]
    const jumping: LockDriver = { ...first, dataAgeMs: async () => (await cast.store(1).dataAgeMs()) + setForwardMs }
    const ask = await cast.driverOver([jumping, ...others])
    cast.store(3).down = true
    cast.store(1).restartEmpty()
    expect(await ask.claim('one')).toMatchObject(unknown)
    setForwardMs = 3_600_000
    // Its answer has the node asked for its age.
    await ask.renew('never held')
    expect(await ask.claim('two')).toMatchObject(unknown)
    await cast.world.pass(60_000)
    expect(await ask.claim('three')).toMatchObject(unknown)
    await cast.world.pass(61_000)
    expect(await ask.claim('four')).toMatchObject(held)
  })

  test('has no vote until it has been up for as long as any lease may last', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    await cast.world.pass(5000)
    const ask = await cast.driver([undefined, undefined, cut])
    expect(await ask.claim('one')).toMatchObject(held)
    cast.store(2).restartEmpty()
    const votesAt = cast.world.now + 5000
    expect(await ask.renew('one')).toMatchObject({ state: 'unknown' })
    const other = await cast.driver([cut])
    expect((await other.claim('two')).state).not.toBe('held')
    await cast.world.pass(votesAt - 1 - cast.world.now)
    expect((await other.claim('three')).state).not.toBe('held')
    await cast.world.pass(votesAt + 200 - cast.world.now)
    expect(await other.claim('four')).toMatchObject(held)
  })

  test('is sent no claim until then: what it grants would only be in the way', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    await cast.world.pass(5000)
    const ask = await cast.driver()
    cast.store(3).restartEmpty()
    // Its age is known with its first answer.
    await ask.claim('one')
    await ask.release('one')
    const before = cast.store(3).sent.flat().length
    expect(await ask.claim('two')).toMatchObject(held)
    await ask.release('two')
    const since = cast.store(3).sent.flat().slice(before)
    expect(since.map(({ op }) => op)).not.toContain('claim')
  })

  test('is found out even if it restarted between the grant and the answer', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    await cast.world.pass(5000)
    cast.store(3).down = true
    const ask = await cast.driver([slow(10), slow(10)])
    cast.world.at(15, () => cast.store(2).restartEmpty())
    expect(await ask.claim('one')).toMatchObject(unknown)
  })

  test('is judged by when it was asked: it may have answered before it had a vote', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    const ask = await cast.driver([slow(10), slow(10), slow(10)])
    // Asked when the nodes have kept their data for 4.995 s, answered when it is 5.015 s.
    const opened = cast.world.now
    await cast.world.pass(4995 - opened)
    expect(await ask.claim('one')).toMatchObject(unknown)
    await cast.world.pass(5000)
    expect(await ask.claim('two')).toMatchObject(held)
  })

  test('is judged by when it was asked also by a client that comes to know its age with the answer', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    const links = cast.stores.map((store) => {
      let asked = 0
      const link = store.link({ delayMs: () => 10, losesRequest: () => false, losesReply: () => false })
      // Until then it seems to be old enough.
      return { ...link, dataAgeMs: async () => ((asked += 1) === 1 ? 60_000 : link.dataAgeMs?.()) ?? 0 }
    })
    const ask = await cast.driverOver(links)
    await cast.world.pass(4990 - cast.world.now)
    expect(await ask.claim('one')).toMatchObject(unknown)
  })

  test('does not end what others hold: its word that it knows nothing of a claim does not count', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    await cast.world.pass(5000)
    const ask = await cast.driver()
    const fence = await ask.fence('one')
    cast.store(1).restartEmpty()
    cast.store(2).restartEmpty()
    // A majority says that there is no such claim, and one node that it is held.
    expect(await ask.renew('one')).toMatchObject(unknown)
    expect(await cast.holdersOn(3)).toEqual([`one ${fence}`])
  })

  test.each([
    ['cannot say', undefined],
    ['says that its data was kept for ever', async () => Infinity],
    ['says something that is no age', async () => Number.NaN],
    ['has a store behind it that does not say', unsupportedAge],
  ])('would not be noticed if it %s, so that it is refused', async (_how, dataAgeMs) => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    let closed = 0
    const links = cast.stores.map((store, place) => {
      const link = { ...store.link(), close: async () => void (closed += 1) }
      if (place !== 1) return link
      if (dataAgeMs !== undefined) return { ...link, dataAgeMs }
      delete (link as Partial<LockDriver>).dataAgeMs
      return link
    })
    await expect(cast.driverOver(links)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('node 2 (memory)') as string,
    })
    expect(closed).toBe(3)
    expect(cast.world.timers).toBe(0)
    // Whoever knows that no node ever loses anything may say so.
    const trusting = await cast.driverOver(links, { votesAfter: 0 })
    expect(await trusting.claim('one')).toMatchObject(held)
  })

  test('is not counted while it cannot be asked how old its data is', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    await cast.world.pass(5000)
    let fails = false
    const links = cast.stores.map((store) => {
      const link = store.link()
      const failing = async (): Promise<number> => {
        if (fails) throw new Error('no answer')
        return (await link.dataAgeMs?.()) ?? 0
      }
      return { ...link, dataAgeMs: failing }
    })
    const ask = await cast.driverOver(links)
    fails = true
    expect(await ask.claim('one')).toMatchObject(unknown)
    fails = false
    expect(await ask.claim('two')).toMatchObject(held)
  })

  test('bounds the ttl: no lease may last longer than a node stays without a vote', async () => {
    const cast = new Cast([0, 0, 0], { votesAfter: 5000 })
    const ask = await cast.driver()
    expect(ask.driver.supports.ttlMaxMs).toBe(5000)
    expect(await ask.claim('one', { ttlMs: 4000, graceMs: 2000 })).toMatchObject({ error: { code: 'INVALID' } })
  })
})

describe('a quorum', () => {
  test('lists what a majority holds, and nothing else', async () => {
    const cast = new Cast(five)
    const ask = await cast.driver([cut, cut])
    const fence = await ask.fence('one')
    await cast.holdOn(1, 'leftover', { key: 'default/named:y' })
    const other = await cast.driver()
    expect(await other.list()).toEqual([`one ${fence}`])
  })

  test('goes on renewing, claiming and listing when its nodes were slow to list, and to nothing else', async () => {
    const cast = new Cast()
    let listsWithinMs = 6000
    const links = cast.stores.map((store): LockDriver => {
      const link = store.link()
      return { ...link, list: (query) => cast.world.wait(listsWithinMs).then(() => link.list(query)) }
    })
    const ask = await cast.driverOver(links)
    const fence = await ask.fence('one')
    const listing = expect(ask.driver.list({})).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    for (let beats = 0; beats < 12; beats += 1) {
      await cast.world.pass(500)
      expect(await ask.renew('one')).toMatchObject({ state: 'held', fence })
    }
    await listing
    listsWithinMs = 1
    expect(await ask.list()).toEqual([`one ${fence}`])
    await ask.release('one')
    expect(await ask.claim('two')).toMatchObject({ state: 'held' })
  })

  test('reads a node that never comes to the end of its list for no longer than somebody waits', async () => {
    const cast = new Cast()
    let pages = 0
    const [first, ...others] = cast.stores.map((store) => store.link()) as [LockDriver, ...LockDriver[]]
    const endless: LockDriver = {
      ...first,
      list: async () => {
        await cast.world.wait(10)
        return { now: 0, keys: [], next: `page ${(pages += 1)}` }
      },
    }
    const ask = await cast.driverOver([endless, ...others])
    expect(await ask.list()).toEqual([])
    await cast.world.pass(100)
    const read = pages
    await cast.world.pass(10_000)
    expect(pages).toBe(read)
  })

  test('lists with one node silent, and not with two of three', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    const fence = await ask.fence('one')
    cast.store(2).down = true
    expect(await ask.list()).toEqual([`one ${fence}`])
    cast.store(3).down = true
    await expect(ask.list()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'no-majority' })
  })

  test('evicts by the fence that was told, also where a late node knows the claim by another', async () => {
    const cast = new Cast([0, 0, 5000])
    const ask = await cast.driver([undefined, undefined, slow(30)])
    const fence = await ask.fence('one')
    await cast.world.pass(200)
    expect(await (await cast.driver()).evict(fence)).toEqual({ state: 'absent', reason: 'evicted', detail: 'a test' })
    for (const place of [1, 2, 3]) expect(await cast.holdersOn(place)).toEqual([])
    expect(await ask.renew('one')).toEqual({ state: 'absent', reason: 'evicted', detail: 'a test' })
  })

  test('opens with a majority; the rest joins when it can', async () => {
    const cast = new Cast()
    cast.store(3).down = true
    const ask = await cast.driver()
    await ask.claim('one')
    await ask.release('one')
    cast.store(3).down = false
    await cast.world.pass(1000)
    await ask.claim('two')
    expect(await cast.holdersOn(3)).toHaveLength(1)
  })

  test('does not open with a minority, and then keeps nothing open', async () => {
    const cast = new Cast()
    cast.store(2).down = true
    cast.store(3).down = true
    let closed = 0
    const links = cast.stores.map((store) => ({ ...store.link(), close: async () => void (closed += 1) }))
    await expect(cast.driverOver(links)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'no-majority' })
    expect(closed).toBe(3)
    expect(cast.world.timers).toBe(0)
  })

  test('closes every node, even if one of them fails, and leaves no timer', async () => {
    const cast = new Cast()
    let closed = 0
    const links = cast.stores.map((store, place) => ({
      ...store.link(),
      close: async () => {
        closed += 1
        if (place === 0) throw new Error('will not')
      },
    }))
    const ask = await cast.driverOver(links)
    await ask.claim('one')
    cast.store(3).down = true
    await ask.release('one')
    await ask.close()
    expect(closed).toBe(3)
    expect(cast.world.timers).toBe(0)
  })

  test.each([0, 1, 2, 4])('of %i stores is refused', async (count) => {
    const cast = new Cast(Array.from({ length: count }, () => 0))
    await expect(cast.driver()).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('of a store whose locks end with a connection is refused, also where that turns out later', async () => {
    const cast = new Cast()
    const links = cast.stores.map((store) => store.link())
    const [first, ...others] = links
    if (first === undefined) throw new Error('There is no node.')
    const supports = { ...first.supports, lifetime: 'connection' } as const
    const refusal = expect.objectContaining({ code: 'UNSUPPORTED' }) as Error
    await expect(cast.driverOver([{ ...first, supports }, ...others])).rejects.toThrow(refusal)
    let changed = false
    const changing = links.map((link) => ({
      ...link,
      get supports() {
        return changed ? supports : link.supports
      },
    }))
    const ask = await cast.driverOver(changing)
    changed = true
    expect(await ask.claim('one')).toMatchObject(unknown)
    for (const store of cast.stores) expect(store.sent.flat()).toEqual([])
  })

  test('of two drivers of one store is refused', () => {
    const cast = new Cast()
    const links = cast.stores.map((store, place) => ({ ...store.link(), store: `file-${Math.min(place, 1)}` }))
    expect(() => quorum(links)).toThrow(/of one store/)
  })

  test('of one store several times over is refused', async () => {
    const cast = new Cast()
    const link = cast.store(1).link()
    await expect(cast.driverOver([link, link, link])).rejects.toMatchObject({ code: 'INVALID' })
  })
})

const never = { delayMs: () => 0, losesRequest: () => false, losesReply: () => false }

async function unsupportedAge(): Promise<number> {
  throw new LeaseholdError('UNSUPPORTED', 'The store behind does not say.')
}

/** A node that keeps what it holds for less than it was asked to. */
function cutTo(link: LockDriver, ttlMs: number): LockDriver {
  return {
    ...link,
    send: async (requests) =>
      (await link.send(requests)).map((status) => (status.state === 'held' ? { ...status, ttlMs } : status)),
  }
}

function claimOf(id: string) {
  const runner = { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' }
  return { id, mode: 'exclusive' as const, priority: 0, wait: false, ttlMs: 1000, graceMs: 0, runner }
}
