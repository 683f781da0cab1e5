import { expect } from '../vitest.ts'
import type { ListedKey } from '../../core/contract/driver.ts'
import type { Fact } from './fact.ts'
import type { Stage } from './stage.ts'

/** What the store holds can be read, a page at a time. */
export function listing(fact: Fact): void {
  fact('an unused store lists nothing', [], async (stage) => {
    expect(await stage.list()).toMatchObject({ keys: [] })
    expect((await stage.list({ key: 'stage/named:nobody' })).keys).toEqual([])
  })

  fact('a claim is listed as it was asked for', [], async (stage) => {
    const { fence } = await stage.hold('one', { ttl: 20, priority: 0 })
    const [claim] = await stage.listed()
    expect(claim).toMatchObject({
      id: stage.id('one'),
      state: 'held',
      mode: 'exclusive',
      priority: 0,
      fence,
      graceMs: 0,
    })
    expect(claim?.ttlMs).toBe(stage.ms(20))
    expect(claim?.runner).toEqual(stage.draft('one').runner)
  })

  fact('limits and ranges are listed', ['shared', 'limit', 'range'], async (stage) => {
    await stage.hold('one', { mode: 'shared', limit: 4, range: [10, 20] })
    const [claim] = await stage.listed()
    expect(claim).toMatchObject({ mode: 'shared', limit: 4, range: { start: 10, end: 20 } })
  })

  fact(
    'holders come first, then waiters in the order of their turn',
    ['queue', 'shared', 'priority'],
    async (stage) => {
      await stage.hold('reader', { mode: 'shared' })
      await stage.hold('other', { mode: 'shared' })
      await stage.queue('one')
      await stage.queue('two')
      await stage.queue('first', { priority: 5 })
      const claims = await stage.listed()
      expect(claims.map(({ state }) => state)).toEqual(['held', 'held', 'waiting', 'waiting', 'waiting'])
      expect(claims.slice(2).map(({ id }) => stage.nameOf(id))).toEqual(['first', 'one', 'two'])
      expect(claims.slice(2).map(({ fence, acquiredAt }) => [fence, acquiredAt])).toEqual([
        [0, 0],
        [0, 0],
        [0, 0],
      ])
    },
  )

  fact(
    'whether a claim may outlive its process, and whether it converts another, is listed',
    ['convert', 'shared', 'queue'],
    async (stage) => {
      await stage.hold('reader', { mode: 'shared' })
      await stage.hold('other', { mode: 'shared' })
      await stage.queue('upgrade', { replaces: 'reader' })
      await stage.queue('writer')
      await stage.ask('reader', {
        op: 'renew',
        key: stage.key,
        id: stage.id('reader'),
        ttlMs: stage.ms(20),
        detached: true,
      })
      const claims = (await stage.listed()).toSorted((a, b) => (stage.nameOf(a.id) < stage.nameOf(b.id) ? -1 : 1))
      expect(claims.map(({ id, converting }) => [stage.nameOf(id), converting])).toEqual([
        ['other', false],
        ['reader', false],
        ['upgrade', true],
        ['writer', false],
      ])
      // A store that cannot see processes end need not list `detached`; if it does, the value must be right.
      const detached = claims.flatMap((claim) => (claim.detached === undefined ? [] : [claim.detached]))
      if (detached.length > 0) expect(detached).toEqual([false, true, false, false])
    },
  )

  fact("times are of the store's clock and fit its now", [], async (stage) => {
    await stage.hold('one', { ttl: 20 })
    await stage.pass(3)
    await stage.renew('one', 10)
    await stage.pass(2)
    const { now, keys } = await stage.list({ key: stage.key })
    const [claim] = keys[0]?.claims ?? []
    expect(claim).toBeDefined()
    if (claim === undefined) return
    stage.expectTicks(now - claim.enteredAt, 5)
    stage.expectTicks(now - claim.acquiredAt, 5)
    stage.expectTicks(now - claim.lastHeartbeat, 2)
    stage.expectTicks(claim.expiresAt - now, 8)
    expect(claim.ttlMs).toBe(stage.ms(10))
    if (stage.first.supports.renewals !== false) expect(claim.renewalCount).toBe(1)
  })

  fact('a promoted waiter shows when it came and when it was granted', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.pass(2)
    await stage.release('one')
    await stage.pass(1)
    const { now, keys } = await stage.list({ key: stage.key })
    const [claim] = keys[0]?.claims ?? []
    stage.expectTicks(now - (claim?.enteredAt ?? 0), 3)
    stage.expectTicks(now - (claim?.acquiredAt ?? 0), 1)
  })

  fact('keys without claims are not listed', [], async (stage) => {
    await stage.hold('one')
    await stage.release('one')
    expect((await stage.list()).keys).toEqual([])
  })

  fact('pages together show every key once', [], async (stage) => {
    const names = await fillKeys(stage, 'stage/named:', 25)
    for (const limit of [1, 4, 25, 1000]) {
      const keys = await everyPage(stage, { limit })
      expect(keys.map(({ key }) => key).toSorted()).toEqual(names)
    }
  })

  fact('a page that holds the rest is the last', [], async (stage) => {
    await fillKeys(stage, 'stage/named:', 6)
    expect((await stage.list({ limit: 6 })).next).toBeUndefined()
    const first = await stage.list({ limit: 4 })
    expect(first.keys).toHaveLength(4)
    expect(first.next).toBeDefined()
    expect(await stage.list({ limit: 4, after: first.next ?? '' })).not.toHaveProperty('next')
  })

  fact('a prefix narrows the list, and is taken to the letter', [], async (stage) => {
    const prefix = 'stage/named:a_b%/'
    const wanted = await fillKeys(stage, prefix, 5)
    for (const name of ['a', 'a_b', 'aXb%/0', 'a_bX/0', 'a_b%', 'b', 'A_B%/0', 'a_b%\u{1F512}']) {
      await stage.hold(`other ${name}`, { key: `stage/named:${name}` })
    }
    expect((await everyPage(stage, { prefix, limit: 2 })).map(({ key }) => key).toSorted()).toEqual(wanted)
    expect((await everyPage(stage, { prefix: 'nobody', limit: 2 })).length).toBe(0)
  })

  fact(
    'of many claims the first are listed, the one that is known, and how many there are',
    ['queue', 'shared'],
    async (stage) => {
      const readers = ['a', 'b', 'c', 'd', 'e']
      for (const reader of readers) await stage.hold(reader, { mode: 'shared' })
      for (const writer of ['first', 'second', 'third']) await stage.queue(writer)
      const counts = { held: 5, waiting: 3 }
      const listed = async (claims: number, known?: string): Promise<(string | undefined)[]> => {
        const query = { key: stage.key, claims, ...(known !== undefined && { known: stage.id(known) }) }
        const [key] = (await stage.list(query)).keys
        if (claims < 8) expect(key).toMatchObject(counts)
        return key?.claims.map(({ id }) => stage.nameOf(id)) ?? []
      }
      const held = await listed(3)
      expect(held).toHaveLength(3)
      for (const name of held) expect(readers).toContain(name)
      expect(await listed(3, 'third')).toEqual([...held, 'third'])
      expect(new Set(await listed(1, 'e')).size).toBe(held[0] === 'e' ? 1 : 2)
      expect(await listed(1, 'e')).toContain('e')
      expect((await listed(7)).slice(5)).toEqual(['first', 'second'])
      expect((await listed(6, 'first')).slice(5)).toEqual(['first'])
      expect(await listed(8)).toHaveLength(8)
    },
  )

  fact('one key is listed by its name, not by its beginning', [], async (stage) => {
    const name = 'stage/named:one'
    await stage.hold('one', { key: name })
    await stage.hold('two', { key: `${name}/more` })
    expect((await stage.list({ key: name })).keys.map(({ key }) => key)).toEqual([name])
  })

  fact('a claim that was told to leave shows why', ['evict lower-priority', 'queue'], async (stage) => {
    await stage.hold('low')
    await stage.queue('high', { priority: 5, evict: 'lower-priority' })
    expect((await stage.listed())[0]?.leaving).toBe('preempted')
  })
}

async function fillKeys(stage: Stage, prefix: string, count: number): Promise<string[]> {
  const keys = Array.from({ length: count }, (_, index) => `${prefix}${index}`)
  for (const key of keys) await stage.hold(`holder of ${key}`, { key })
  return keys.toSorted()
}

async function everyPage(stage: Stage, query: { prefix?: string; limit: number }): Promise<readonly ListedKey[]> {
  const keys: ListedKey[] = []
  let after: string | undefined
  do {
    const page = await stage.list({ ...query, ...(after !== undefined && { after }) })
    expect(page.keys.length).toBeLessThanOrEqual(query.limit)
    keys.push(...page.keys)
    after = page.next
  } while (after !== undefined)
  return keys
}
