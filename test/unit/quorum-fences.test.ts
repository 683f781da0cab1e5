import { describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { requestBounds } from '../../src/core/contract/bounds.ts'
import { Cast, cut, mute, slow } from './quorum/cast.ts'

const held = { state: 'held' }

describe('the fence of a grant', () => {
  test('is the highest that a node of the majority gave', async () => {
    const cast = new Cast([0, 5000, 1000])
    const ask = await cast.driver()
    const fence = await ask.fence('one')
    expect(fence).toBe((1_700_000_000_000 + 5000) * 1000)
  })

  test('is written back to a majority before the grant is told', async () => {
    const cast = new Cast([0, 5000, 1000])
    const ask = await cast.driver([undefined, undefined, cut])
    const fence = await ask.fence('one')
    expect(await cast.holdersOn(1)).toEqual([`one ${fence}`])
    expect(await cast.holdersOn(2)).toEqual([`one ${fence}`])
  })

  test('needs no second round where the majority gave the same', async () => {
    const cast = new Cast()
    const ask = await cast.driver()
    await ask.fence('one')
    expect(cast.stores.map(({ sent }) => sent.length)).toEqual([1, 1, 1])
    await ask.release('one')
    await ask.fence('two')
    expect(cast.stores.map(({ sent }) => sent.length)).toEqual([3, 3, 3])
  })

  test('is in step after one write-back: the next grant needs none', async () => {
    const cast = new Cast([0, 5000, 1000])
    const ask = await cast.driver()
    for (const id of ['one', 'two', 'three']) {
      await ask.fence(id)
      await ask.release(id)
    }
    const rounds = cast.stores.map(({ sent }) => sent.flat().filter(({ op }) => op === 'renew').length)
    expect(Math.max(...rounds)).toBe(1)
  })

  test('is not told unless the write-back reaches a majority, and nothing is left behind', async () => {
    const cast = new Cast([0, 5000, 1000])
    // The way to the first node is cut once the claim is through.
    let sends = 0
    const once = { losesRequest: () => (sends += 1) > 1 }
    const ask = await cast.driver([once, undefined, cut])
    expect(await ask.claim('one')).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    await cast.world.pass(10)
    expect(await cast.holdersOn(2)).toEqual([])
  })

  test('stays as told, whatever a node that was late gave', async () => {
    const cast = new Cast([0, 0, 5000])
    const ask = await cast.driver([undefined, undefined, slow(30)])
    const fence = await ask.fence('one')
    await cast.world.pass(200)
    expect((await cast.holdersOn(3))[0]).not.toBe(`one ${fence}`)
    expect(await ask.renew('one')).toMatchObject({ ...held, fence })
    expect(await ask.claim('one')).toMatchObject({ ...held, fence })
    expect(await ask.list()).toEqual([`one ${fence}`])
  })

  test('is lifted on a node that was late and lower, with the next renewal', async () => {
    const cast = new Cast([5000, 5000, 0])
    const ask = await cast.driver([undefined, undefined, slow(30)])
    const fence = await ask.fence('one')
    await cast.world.pass(200)
    await ask.renew('one')
    await cast.world.pass(200)
    expect(await cast.holdersOn(3)).toEqual([`one ${fence}`])
  })

  test('is not listed before a majority has it', async () => {
    const cast = new Cast([0, 5000, 1000])
    const observer = await cast.driver()
    for (const place of [1, 2, 3]) await cast.holdOn(place, 'one')
    expect(await observer.list()).toEqual([])
  })

  test('is not listed as what a majority happened to give, while another is written back', async () => {
    const cast = new Cast([0, 0, 5000])
    for (const place of [1, 2, 3]) await cast.holdOn(place, 'one')
    const [first, ...others] = cast.stores.map((store) => store.link()) as [LockDriver, ...LockDriver[]]
    const list = first.list.bind(first)
    // Its owner has heard of the first and of the third, and what it writes comes just after the look.
    first.list = async (query) => {
      const page = await list(query)
      await cast.writeBackTo(1, 'one', (1_700_000_000_000 + 5000) * 1000)
      return page
    }
    const observer = await cast.driverOver([first, ...others])
    expect(await observer.list()).toEqual(await cast.holdersOn(3))
  })

  test('is not listed as what a late node gave, while the others let go of it', async () => {
    const cast = new Cast([0, 0, 5000])
    const ask = await cast.driver([undefined, undefined, slow(30)])
    const fence = await ask.fence('one')
    await cast.world.pass(200)
    expect(await ask.list()).toEqual([`one ${fence}`])
    await cast.releaseOn(1, 'one')
    expect(await ask.list()).toEqual([])
  })

  test('is listed where a node is silent that may have it', async () => {
    const cast = new Cast([0, 0, 5000])
    const ask = await cast.driver([undefined, undefined, slow(30)])
    const fence = await ask.fence('one')
    await cast.world.pass(200)
    const other = await cast.driver([cut])
    expect(await other.list()).toEqual([expect.stringMatching(/^one /)])
    expect(await ask.list()).toEqual([`one ${fence}`])
  })

  test('is never told higher by another client that renews the claim', async () => {
    const cast = new Cast([0, 0, 5000])
    const ask = await cast.driver([undefined, undefined, slow(30)])
    const fence = await ask.fence('one')
    await cast.world.pass(200)
    const other = await cast.driver([cut])
    expect(await other.renew('one')).toMatchObject({ ...held, fence })
  })

  test('is not told lower by another client that renews the claim, where a node was late and lower', async () => {
    const cast = new Cast([0, 5000, 5000])
    // The node misses every renewal of whoever was granted the claim.
    const late = { delayMs: () => 30, losesRequest: () => cast.store(1).sent.length > 0 }
    const ask = await cast.driver([late])
    const fence = await ask.fence('one')
    await cast.world.pass(200)
    expect(await cast.holdersOn(1)).not.toEqual([`one ${fence}`])
    const other = await cast.driver()
    expect(await other.renew('one')).toMatchObject({ ...held, fence })
    const yetAnother = await cast.driver([undefined, slow(20), slow(20)])
    expect(await yetAnother.renew('one')).toMatchObject({ ...held, fence })
  })
})

describe('a node whose fences are beyond what can be written back', () => {
  const { most } = requestBounds.fenceFloor

  test('does not vote, and stands in nobody’s way', async () => {
    const cast = new Cast()
    await cast.liftFencesOn(1, most)
    const ask = await cast.driver()
    for (const id of ['one', 'two', 'three']) {
      const fence = await ask.fence(id)
      expect(fence).toBeLessThan(most)
      expect(await ask.renew(id)).toMatchObject({ ...held, fence })
      expect(await ask.release(id)).toMatchObject({ state: 'absent', reason: 'released' })
    }
    cast.store(2).down = true
    expect(await ask.claim('four')).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
  })

  test('cannot come of what a caller of the quorum asks for', async () => {
    const cast = new Cast([0, 5000, 1000])
    const ask = await cast.driver()
    const lift = { op: 'renew', key: 'default/named:x', id: 'one', ttlMs: 1000 } as const
    await ask.fence('one')
    const invalid = { state: 'unknown', error: { code: 'INVALID' } }
    expect(await ask.one({ ...lift, fenceFloor: most })).toMatchObject(invalid)
    const { fenceFloorMax = 0 } = ask.driver.supports
    expect(await ask.one({ ...lift, fenceFloor: fenceFloorMax })).toMatchObject({ ...held, fence: fenceFloorMax })
    await ask.release('one')
    const fence = await ask.fence('two')
    expect(fence).toBeGreaterThan(fenceFloorMax)
    expect(await ask.renew('two')).toMatchObject({ ...held, fence })
  })
})

describe('fences grow', () => {
  /** Grants one after the other, each without one of the nodes, whose counters are far apart. */
  async function grantsWithoutOne(link: (driver: LockDriver) => LockDriver): Promise<number[]> {
    const cast = new Cast([0, 60_000, 30_000])
    const fences: number[] = []
    for (const [turn, missing] of [2, 1, 0, 2, 0, 1, 1, 0].entries()) {
      const links = cast.stores.map((store) => link(store.link()))
      const lost = cast.store(missing + 1)
      const ask = await cast.driverOver(links)
      lost.down = true
      fences.push(await ask.fence(`turn ${turn}`))
      lost.down = false
      await ask.release(`turn ${turn}`)
      await cast.world.pass(5)
    }
    return fences
  }

  test('whichever node is missing', async () => {
    const fences = await grantsWithoutOne((driver) => driver)
    expect(fences).toEqual(fences.toSorted((one, other) => one - other))
    expect(new Set(fences).size).toBe(fences.length)
  })

  test('which they do not where nodes ignore what is written back', async () => {
    const fences = await grantsWithoutOne(ignoringFloors)
    expect(fences).not.toEqual(fences.toSorted((one, other) => one - other))
  })

  test('across a node that came back empty, once it votes', async () => {
    const cast = new Cast([0, 60_000, 0], { votesAfter: '2m' })
    await cast.world.pass(120_000)
    const ask = await cast.driver()
    cast.store(3).down = true
    const first = await ask.fence('one')
    await ask.release('one')
    cast.store(2).restartEmpty()
    await cast.world.pass(119_000)
    cast.store(3).down = false
    cast.store(1).down = true
    expect(await ask.claim('two')).toMatchObject({ state: 'unknown' })
    await cast.world.pass(2000)
    expect(await ask.fence('three')).toBeGreaterThan(first)
  })

  test('even if its wall clock is far behind the one that minted them', async () => {
    const cast = new Cast([90_000, 0, 0], { votesAfter: '2m' })
    await cast.world.pass(120_000)
    await cast.liftFencesOn(1, (1_700_000_000_000 + 120_000 + 90_000) * 1000)
    const ask = await cast.driver([undefined, undefined, cut])
    const first = await ask.fence('one')
    await ask.release('one')
    cast.store(2).restartEmpty()
    cast.store(1).down = true
    await cast.world.pass(121_000)
    const other = await cast.driver()
    expect(await other.fence('two')).toBeGreaterThan(first)
  })

  test('even if the clocks of the nodes that are left never reach the fence', async () => {
    const cast = new Cast([90_000, -300_000, -300_000], { votesAfter: '2m' })
    await cast.world.pass(120_000)
    const ask = await cast.driver([undefined, undefined, cut])
    const first = await ask.fence('one')
    await ask.release('one')
    cast.store(2).restartEmpty()
    cast.store(1).down = true
    await cast.world.pass(121_000)
    const other = await cast.driver()
    expect(await other.fence('two')).toBeGreaterThan(first)
  })

  test('when the reply to the grant before was lost', async () => {
    const cast = new Cast([0, 5000, 1000])
    const deaf = await cast.driver([mute, mute, undefined])
    expect(await deaf.claim('one')).toMatchObject({ state: 'unknown' })
    await cast.world.pass(5000)
    const ask = await cast.driver()
    const first = await ask.fence('two')
    await ask.release('two')
    expect(await ask.fence('three')).toBeGreaterThan(first)
  })
})

/** A node that takes note of no fence but its own, and says otherwise. */
function ignoringFloors(driver: LockDriver): LockDriver {
  return {
    ...driver,
    async send(requests) {
      const floors = requests.map((request) => (request.op === 'renew' ? (request.fenceFloor ?? 0) : 0))
      const own = requests.map((request) => (request.op === 'renew' ? { ...request, fenceFloor: undefined } : request))
      const statuses = await driver.send(own)
      return statuses.map((status, index) =>
        status.state === 'held' ? { ...status, fence: Math.max(status.fence, floors[index] ?? 0) } : status,
      )
    },
  }
}
