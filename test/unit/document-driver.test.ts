import { describe, expect, test } from 'vitest'
import { documentDriver, type Swap } from '../../src/drivers/document/driver.ts'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import type { KeyDocument } from '../../src/drivers/document/key-document.ts'
import { conformance, fakeTime, modelTest, type Harness } from '../../src/testing/index.ts'
import { DocumentShelf } from './support/document-shelf.ts'

const harness: Harness = {
  async open() {
    let shelf = new DocumentShelf()
    return {
      async driver() {
        const driver = documentDriver(shelf.store())
        await driver.open()
        return driver
      },
      async advance(ms) {
        shelf.time += ms
      },
      async empty() {
        const { time } = shelf
        shelf = new DocumentShelf()
        shelf.time = time
      },
      async close() {},
    }
  },
}

conformance('a document store', harness)
modelTest('a document store', harness, { runs: 150 })

describe('a document store', () => {
  test('lets one of two writers win and the other read again', async () => {
    const shelf = new DocumentShelf()
    const [one, other] = [documentDriver(shelf.store()), documentDriver(shelf.store())]
    const statuses = await Promise.all([claim(one, 'a'), claim(other, 'b')])
    expect(statuses.map(({ state }) => state).toSorted()).toEqual(['held', 'waiting'])
    expect(shelf.swaps).toBe(3)
  })

  test('that is closed while it opens is closed once more when it has opened', async () => {
    let isOpen = false
    let finish: () => void = () => {}
    const driver = documentDriver({
      ...new DocumentShelf().store(),
      async open() {
        await new Promise<void>((resolve) => (finish = resolve))
        isOpen = true
      },
      async close() {
        isOpen = false
      },
    })
    const opening = expect(driver.open()).rejects.toMatchObject({ code: 'CLOSED' })
    await driver.close()
    finish()
    await opening
    expect(isOpen).toBe(false)
  })

  test('does not take a renewal that came while it read slowly for a clock set back', async () => {
    const shelf = new DocumentShelf()
    const store = shelf.store()
    const holder = documentDriver(shelf.store())
    const time = fakeTime()
    const slow = documentDriver(
      {
        ...store,
        async load(keys) {
          const { now, wall } = await store.load([])
          // The clock was read, and the documents come 600 ms later: meanwhile the holder has renewed.
          shelf.time += 600
          time.block(600)
          await holder.send([{ op: 'renew', key: 'default/named:x', id: 'holder', ttlMs: 1000 }])
          return { now, wall, loaded: (await store.load(keys)).loaded }
        },
      },
      time.environment,
    )
    await claim(holder, 'holder')
    shelf.time += 100
    expect(await claim(slow, 'waiter')).toMatchObject({ state: 'waiting' })
    const { now, keys } = await holder.list({})
    expect(keys[0]?.claims[0]).toMatchObject({ id: 'holder', expiresAt: now + 1000, renewalCount: 1 })
  })

  test('cuts a lease that lies further ahead than the reading of the clock took', async () => {
    const shelf = new DocumentShelf()
    const driver = documentDriver(shelf.store())
    await claim(driver, 'holder')
    shelf.time -= 3000
    await claim(driver, 'waiter')
    const { now, keys } = await driver.list({})
    expect(keys[0]?.claims[0]).toMatchObject({ id: 'holder', expiresAt: now + 1000 })
  })

  test('never writes a document twice, so that its hash can be its revision', async () => {
    const texts = new Map<string, string>()
    const late: (() => Promise<unknown>)[] = []
    const shelf = new DocumentShelf()
    const store = {
      ...shelf.store(),
      load: async (keys: readonly string[]) => ({
        now: shelf.time,
        wall: 1_700_000_000_000 + shelf.time,
        loaded: keys.map((key) => {
          const text = texts.get(key)
          return { document: text === undefined ? undefined : (JSON.parse(text) as KeyDocument), revision: text ?? '' }
        }),
      }),
      swap: async (swaps: readonly Swap<string>[]) =>
        swaps.map(({ key, document, revision }) => {
          if ((texts.get(key) ?? '') !== revision) return 'conflict'
          texts.set(key, JSON.stringify(document))
          return 'swapped'
        }),
    }
    const driver = documentDriver<string>(store)
    await claim(driver, 'holder')
    // A swap that is sent now and comes late: by then the queue is as it was.
    const losing = documentDriver<string>({
      ...store,
      swap: async (swaps) => {
        late.push(() => store.swap(swaps))
        return swaps.map(() => ({ unknown: new Error('no answer') }))
      },
    })
    expect(await claim(losing, 'late')).toMatchObject({ state: 'unknown' })
    await claim(driver, 'passing')
    await driver.send([{ op: 'release', key: 'default/named:x', id: 'passing' }])
    expect(await late[0]?.()).toEqual(['conflict'])
  })

  test('gives up on a key that changes faster than it can write', async () => {
    const shelf = new DocumentShelf()
    let writes = 0
    shelf.betweenReadAndWrite = () => {
      const stored = shelf.documents.get('default/named:x')
      const text = stored?.text ?? JSON.stringify({ version: 1, lastFence: 1, claims: [] })
      shelf.documents.set('default/named:x', { text, revision: (stored?.revision ?? 0) + 1 })
      writes += 1
    }
    const status = await claim(documentDriver(shelf.store()), 'a')
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'busy' } })
    expect(writes).toBe(50)
  })

  test('answers unknown when the reply to a write was lost, and the claim can be found and released', async () => {
    const shelf = new DocumentShelf()
    const driver = documentDriver(shelf.store())
    shelf.loseNextReply = true
    expect(await claim(driver, 'a')).toMatchObject({ state: 'unknown' })
    expect(await claim(driver, 'a')).toMatchObject({ state: 'held' })
    const [released] = await driver.send([{ op: 'release', key: 'default/named:x', id: 'a' }])
    expect(released).toMatchObject({ state: 'absent', reason: 'released' })
  })

  test('writes nothing for a question that changes nothing', async () => {
    const shelf = new DocumentShelf()
    const driver = documentDriver(shelf.store())
    await claim(driver, 'a')
    const before = shelf.swaps
    expect(await claim(driver, 'b', { wait: false })).toMatchObject({ state: 'absent', reason: 'refused' })
    expect(shelf.swaps).toBe(before)
  })

  test('writes nothing that the store takes note of beside its documents', async () => {
    const shelf = new DocumentShelf()
    const noted: (number | undefined)[] = []
    const driver = documentDriver({
      ...shelf.store(),
      absorbs(_key, { before, after }) {
        if (before?.state !== after?.state) return false
        noted.push(after?.renewalCount)
        return true
      },
    })
    await claim(driver, 'a')
    const before = shelf.swaps
    const renewal = { op: 'renew', key: 'default/named:x', id: 'a', ttlMs: 5000 } as const
    expect(await driver.send([renewal])).toMatchObject([{ state: 'held', ttlMs: 5000 }])
    expect(noted).toEqual([1])
    expect(shelf.swaps).toBe(before)
    // A new fence is more than a renewal.
    await driver.send([{ ...renewal, fenceFloor: 2 ** 52 }])
    expect(shelf.swaps).toBe(before + 1)
  })

  test('swaps by a guess, and answers by none', async () => {
    const shelf = new DocumentShelf()
    const store = shelf.store()
    let guesses = true
    const driver = documentDriver({
      ...store,
      async load(keys) {
        if (!guesses) return store.load(keys)
        guesses = false
        const nobody = keys.map(() => ({ document: undefined, revision: 0, isGuess: true }))
        return { ...(await store.load([])), loaded: nobody }
      },
    })
    expect(await claim(driver, 'a')).toMatchObject({ state: 'held' })
    expect(shelf.loads).toBe(1)
    guesses = true
    const [renewed] = await driver.send([{ op: 'renew', key: 'default/named:x', id: 'a', ttlMs: 1000 }])
    expect(renewed).toMatchObject({ state: 'held' })
    guesses = true
    expect(await claim(driver, 'b')).toMatchObject({ state: 'waiting' })
  })

  test('refuses a record of a newer format and one that is damaged, and leaves both alone', async () => {
    for (const [text, reason] of [
      ['{"version":2,"lastFence":1,"claims":[]}', 'foreign'],
      ['{"version":1,"lastFence":1,"claims":[{}]}', 'corrupt'],
    ] as const) {
      const shelf = new DocumentShelf()
      shelf.documents.set('default/named:x', { text, revision: 1 })
      await expect(claim(documentDriver(shelf.store()), 'a')).rejects.toMatchObject({ code: 'UNAVAILABLE', reason })
      expect(shelf.documents.get('default/named:x')?.text).toBe(text)
    }
  })

  test('refuses one damaged record and answers the rest of the batch', async () => {
    const shelf = new DocumentShelf()
    shelf.documents.set('damaged', { text: '{"version":1,"lastFence":1,"claims":[{}]}', revision: 1 })
    const claims = ['damaged', 'sound'].map((key) => ({ op: 'claim' as const, claim: { ...plainClaim, id: key, key } }))
    const statuses = await documentDriver(shelf.store()).send(claims)
    expect(statuses[0]).toMatchObject({ state: 'unknown', error: { reason: 'corrupt' } })
    expect(statuses[1]).toMatchObject({ state: 'held' })
  })

  test.each([
    ['a claim without an owner', { claim: { ...plainClaim, runner: undefined } }],
    ['a claim of a mode that is none', { claim: { ...plainClaim, mode: 'both' } }],
    ['a grace that no date can have', { claim: { ...plainClaim, graceMs: 2 ** 60 } }],
    ['an end that is no number', { expiresAt: null }],
    ['a fence below zero', { fence: -1 }],
    ['nothing', null],
  ])('refuses %s, and lists the other keys', async (_what, damage) => {
    const shelf = new DocumentShelf()
    const driver = documentDriver(shelf.store())
    await claim(driver, 'a', { key: 'damaged' })
    await claim(driver, 'b', { key: 'sound' })
    const { text = '' } = shelf.documents.get('damaged') ?? {}
    const document = JSON.parse(text) as KeyDocument
    const claims = [damage && { ...document.claims[0], ...damage }]
    shelf.documents.set('damaged', { text: JSON.stringify({ ...document, claims }), revision: 2 })
    expect((await driver.list({})).keys.map(({ key }) => key)).toEqual(['sound'])
    const refused = { code: 'UNAVAILABLE', reason: 'corrupt', key: 'damaged' }
    await expect(driver.list({ key: 'damaged' })).rejects.toMatchObject(refused)
    await expect(claim(driver, 'c', { key: 'damaged', evict: 'all' })).rejects.toMatchObject(refused)
  })

  test('keeps the answers it has when the store fails before the rest are carried out', async () => {
    const failing = async (): Promise<never> => {
      throw new Error('the store is gone')
    }
    const store = { ...new DocumentShelf().store(), load: failing }
    await expect(claim(documentDriver(store), 'a')).rejects.toThrow('the store is gone')
    const held = { state: 'held', fence: 7, ttlMs: 1000 } as const
    const driver = documentDriver({ ...store, fast: async () => [held, undefined] })
    const claims = ['x', 'y'].map((key) => ({ op: 'claim' as const, claim: { ...plainClaim, id: key, key } }))
    expect(await driver.send(claims)).toEqual([held, { state: 'unknown', error: new Error('the store is gone') }])
  })
})

async function claim(driver: LockDriver, id: string, changes: Partial<Claim> = {}) {
  const [status] = await driver.send([{ op: 'claim', claim: { ...plainClaim, id, ...changes } }])
  return status as NonNullable<typeof status>
}

const plainClaim: Claim = {
  id: '',
  key: 'default/named:x',
  mode: 'exclusive',
  priority: 0,
  wait: true,
  ttlMs: 1000,
  graceMs: 0,
  runner: { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' },
}
