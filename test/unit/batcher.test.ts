import { describe, expect, test } from 'vitest'
import { Batcher, submitOnce } from '../../src/core/client/batcher.ts'
import type { LockDriver, Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import { keyOf, sendTimeoutFor } from '../../src/core/contract/requests.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { isSettled } from './support/bench-of-locks.ts'

const absent: ClaimStatus = { state: 'absent', reason: 'unknown' }
const release = (key: string, id = 'id'): Request => ({ op: 'release', key, id })

/** A driver that notes what it is sent and answers when it is told to. */
class Recorder {
  readonly batches: (readonly Request[])[] = []
  readonly #answers: ((statuses: readonly ClaimStatus[]) => void)[] = []
  readonly driver: LockDriver = {
    ...memory(),
    name: 'recorder',
    supports: memory().supports,
    open: async () => {},
    list: async () => ({ now: 0, keys: [] }),
    close: async () => {},
    send: (requests) => {
      this.batches.push(requests)
      return new Promise((resolve) => this.#answers.push(resolve))
    },
  }

  answer(statuses = this.batches[this.batches.length - this.#answers.length]?.map(() => absent) ?? []): void {
    this.#answers.shift()?.(statuses)
  }
}

/** A driver whose sends are answered one by one, in any order. */
function answering() {
  const answers: { readonly requests: readonly Request[]; readonly answer: () => void }[] = []
  const driver: Pick<LockDriver, 'send' | 'supports'> = {
    supports: memory().supports,
    send: (requests) =>
      new Promise((resolve) => {
        answers.push({ requests, answer: () => resolve(requests.map(() => absent)) })
      }),
  }
  return { driver, answers }
}

function setUp() {
  const time = fakeTime()
  const recorder = new Recorder()
  const batcher = new Batcher(recorder.driver, time.environment)
  return { time, recorder, batcher }
}

describe('the batcher', () => {
  test('sends all that one turn asks for at once, sorted by key', async () => {
    const { time, recorder, batcher } = setUp()
    for (const key of ['c', 'a', 'b']) void submitOnce(batcher, release(key))
    await Promise.resolve().then(() => void submitOnce(batcher, release('d')))
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.map((request) => 'key' in request && request.key))).toEqual([
      ['a', 'b', 'c', 'd'],
    ])
  })

  test.each(['claim', 'release', 'renew'] as const)(
    'settles 200,000 requests of one key (%s), in order, with no more than 500 in a send and one send at a time',
    async (op) => {
      const time = fakeTime()
      let underWay = 0
      let underWayMax = 0
      const sizes: number[] = []
      const sent: string[] = []
      const send = async (requests: readonly Request[]): Promise<ClaimStatus[]> => {
        underWay += 1
        underWayMax = Math.max(underWayMax, underWay)
        sizes.push(requests.length)
        for (const request of requests)
          sent.push(request.op === 'claim' ? request.claim.id : 'id' in request ? request.id : '')
        await Promise.resolve()
        underWay -= 1
        return requests.map(() => absent)
      }
      const batcher = new Batcher({ supports: memory().supports, send }, time.environment)
      const answered: string[] = []
      const ids = Array.from({ length: 200_000 }, (_, index) => `id-${index}`)
      for (const id of ids) {
        const request: Request =
          op === 'claim'
            ? { op, claim: claimOf('one', { id }) }
            : op === 'renew'
              ? { op, key: 'one', id, ttlMs: 30_000 }
              : { op, key: 'one', id }
        batcher.submit(request, { answered: () => void answered.push(id) })
      }
      await batcher.settled()
      expect(sent).toEqual(ids)
      expect(answered).toEqual(ids)
      expect(Math.max(...sizes)).toBe(500)
      expect(underWayMax).toBe(1)
    },
  )

  test('sends other keys beside the pieces of a large one, each send within the bound', async () => {
    const { time, recorder, batcher } = setUp()
    for (let index = 0; index < 1200; index += 1)
      void submitOnce(batcher, { op: 'renew', key: 'large', id: `${index}`, ttlMs: 30_000 })
    for (let index = 0; index < 300; index += 1)
      void submitOnce(batcher, { op: 'renew', key: `small/${index}`, id: 'id', ttlMs: 30_000 })
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([500, 300])
    void submitOnce(batcher, release('large', 'last'))
    for (let batch = 0; batch < 4; batch += 1) {
      recorder.answer()
      await time.advance(0)
    }
    expect(recorder.batches.map((batch) => batch.length)).toEqual([500, 300, 500, 201])
    expect(recorder.batches.at(-1)?.at(-1)).toEqual(release('large', 'last'))
    await batcher.settled()
  })

  test('refuses every piece of a large key once closed', async () => {
    const { time, recorder, batcher } = setUp()
    const statuses: ClaimStatus[] = []
    for (let index = 0; index < 1700; index += 1) {
      const request: Request = { op: 'renew', key: 'large', id: `${index}`, ttlMs: 30_000 }
      batcher.submit(request, { answered: (_, status) => void statuses.push(status) })
    }
    await time.advance(0)
    recorder.answer()
    batcher.close()
    await time.advance(0)
    await batcher.settled()
    expect(recorder.batches).toHaveLength(1)
    expect(statuses.map(({ state }) => state)).toEqual([...Array(500).fill('absent'), ...Array(1200).fill('unknown')])
  })

  test('overtakes an unanswered send with one bounded send of a key at a time', async () => {
    const { time, recorder, batcher } = setUp()
    for (let index = 0; index < 1800; index += 1) void submitOnce(batcher, release('large', `${index}`))
    await time.advance(1000)
    const sizes = (): number[] => recorder.batches.map((batch) => batch.length)
    expect(sizes()).toEqual([250, 500])
    await time.advance(100)
    expect(sizes()).toEqual([250, 500, 500, 500, 50])
  })

  test('sends renewals of short leases apart, so that they hurry nobody, and requests of one key together', async () => {
    const { time, recorder, batcher } = setUp()
    const renewal = (key: string, ttlMs: number): Request => ({ op: 'renew', key, id: 'id', ttlMs })
    const asked = [
      renewal('a', 100),
      release('b'),
      renewal('c', 30_000),
      renewal('d', 110),
      renewal('e', 6000),
      renewal('f', 100),
      release('f'),
    ]
    for (const request of asked) void submitOnce(batcher, request)
    await time.advance(0)
    const keys = recorder.batches.map((batch) => batch.map((request) => 'key' in request && request.key))
    expect(keys).toEqual([['a', 'd'], ['b', 'c', 'f', 'f'], ['e']])
    const waitPolicy = recorder.batches.map((batch) => Math.round(sendTimeoutFor(batch, 5000)))
    expect(waitPolicy).toEqual([50, 5000, 2000])
  })

  test('waits for those who ask some promises later in the same turn', async () => {
    const { time, recorder, batcher } = setUp()
    const after = async (promises: number, key: string): Promise<void> => {
      for (let passed = 0; passed < promises; passed += 1) await Promise.resolve()
      batcher.submit(release(key), { answered: () => {} })
    }
    for (const [place, key] of ['a', 'b', 'c', 'd', 'e'].entries()) void after(10 * place, key)
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([5])
  })

  test('knows what is under way in each of several batches, in whatever order they are answered', async () => {
    const { time, batcher } = setUp()
    const sent: string[] = []
    const answers = new Map<string, () => void>()
    const driver: Pick<LockDriver, 'send' | 'supports'> = {
      supports: memory().supports,
      send: (requests) =>
        new Promise((resolve) => {
          const ids = requests.map((request) => ('id' in request ? request.id : '')).join()
          sent.push(ids)
          answers.set(ids, () => resolve(requests.map(() => absent)))
        }),
    }
    const slow = new Batcher(driver, time.environment)
    const ask = async (key: string, id: string): Promise<void> => {
      slow.submit(release(key, id), { answered: () => {} })
      await time.advance(0)
    }
    await ask('a', 'a1')
    await ask('b', 'b1')
    await ask('a', 'a2')
    await ask('b', 'b2')
    await ask('c', 'c1')
    expect(sent).toEqual(['a1', 'b1', 'c1'])
    answers.get('b1')?.()
    await time.advance(0)
    answers.get('c1')?.()
    await time.advance(0)
    expect(sent).toEqual(['a1', 'b1', 'c1', 'b2'])
    await ask('c', 'c2')
    await ask('a', 'a3')
    answers.get('a1')?.()
    await time.advance(0)
    expect(sent).toEqual(['a1', 'b1', 'c1', 'b2', 'c2', 'a2,a3'])
    await batcher.settled()
  })

  test('sends nothing for a key while an earlier request there is unanswered', async () => {
    const { time, recorder, batcher } = setUp()
    void submitOnce(batcher, release('a', 'first'))
    await time.advance(0)
    void submitOnce(batcher, release('a', 'second'))
    void submitOnce(batcher, release('b'))
    await time.advance(0)
    expect(recorder.batches).toEqual([[release('a', 'first')], [release('b')]])
    recorder.answer()
    await time.advance(0)
    expect(recorder.batches.at(-1)).toEqual([release('a', 'second')])
  })

  describe('with a store that does not answer a claim', () => {
    const renew = (key: string, id: string, ttlMs = 3000): Request => ({ op: 'renew', key, id, ttlMs })
    const claim = (key: string, id: string): Request => ({ op: 'claim', claim: claimOf(key, { id }) })

    async function withClaimUnderWay() {
      const { time, recorder, batcher } = setUp()
      const ask = async (request: Request): Promise<void> => {
        batcher.submit(request, { answered: () => {} })
        await time.advance(0)
      }
      await ask(claim('a', 'first'))
      return { time, recorder, batcher, ask, sent: () => recorder.batches.slice(1) }
    }

    test('a renewal of another claim of the key is held back for a tenth of its ttl', async () => {
      const { time, ask, sent } = await withClaimUnderWay()
      await ask(renew('a', 'holder'))
      await time.advance(299)
      expect(sent()).toEqual([])
      await time.advance(2)
      expect(sent()).toEqual([[renew('a', 'holder')]])
    })

    test('a release of another claim is held back for a second, and a claim until the answer', async () => {
      const { time, ask, sent } = await withClaimUnderWay()
      await ask(claim('a', 'second'))
      await ask(release('a', 'holder'))
      await time.advance(999)
      expect(sent()).toEqual([])
      await time.advance(60_000)
      expect(sent()).toEqual([[release('a', 'holder')]])
    })

    test('the requests of one claim stay in order, under way or held back', async () => {
      const { time, recorder, ask, sent } = await withClaimUnderWay()
      await ask(claim('a', 'second'))
      await ask(release('a', 'first'))
      await ask(release('a', 'second'))
      await time.advance(60_000)
      expect(sent()).toEqual([])
      recorder.answer()
      await time.advance(0)
      expect(sent()).toEqual([[claim('a', 'second'), release('a', 'first'), release('a', 'second')]])
    })

    test('what follows an overtaking request of the same claim waits for its answer, and no longer', async () => {
      const { time, batcher, sent } = await withClaimUnderWay()
      const { driver, answers } = answering()
      const slow = new Batcher(driver, time.environment)
      const ask = async (request: Request): Promise<void> => {
        slow.submit(request, { answered: () => {} })
        await time.advance(0)
      }
      await ask(claim('a', 'first'))
      await ask(renew('a', 'holder'))
      await time.advance(400)
      await ask(release('a', 'holder'))
      await time.advance(5000)
      expect(answers.map(({ requests }) => requests)).toEqual([[claim('a', 'first')], [renew('a', 'holder')]])
      answers[1]?.answer()
      await time.advance(1)
      expect(answers[2]?.requests).toEqual([release('a', 'holder')])
      answers[0]?.answer()
      await ask(claim('a', 'second'))
      expect(answers).toHaveLength(3)
      answers[2]?.answer()
      await time.advance(0)
      expect(answers[3]?.requests).toEqual([claim('a', 'second')])
      answers[3]?.answer()
      await slow.settled()
      expect(sent()).toEqual([])
      batcher.close()
      expect(time.timers).toBe(0)
    })

    test('nothing is sent after it has been closed, and no timer is left', async () => {
      const { time, batcher, ask, sent } = await withClaimUnderWay()
      await ask(renew('a', 'holder'))
      batcher.close()
      expect(time.timers).toBe(0)
      await time.advance(5000)
      expect(sent()).toEqual([])
    })
  })

  test('tells when all that a key was asked for before has been answered', async () => {
    const { time, recorder, batcher } = setUp()
    void submitOnce(batcher, release('a', 'first'))
    const answered = batcher.keyAnswered('a')
    await batcher.keyAnswered('b')
    await time.advance(0)
    void submitOnce(batcher, release('a', 'second'))
    expect(await isSettled(answered)).toBe(false)
    recorder.answer()
    await time.advance(0)
    expect(await isSettled(answered), 'whatever was asked for since').toBe(true)
    expect(recorder.batches).toHaveLength(2)
  })

  test('keeps the order of requests for one key', async () => {
    const { time, recorder, batcher } = setUp()
    for (const id of ['1', '2', '3']) void submitOnce(batcher, release('a', id))
    await time.advance(0)
    expect(recorder.batches[0]?.map((request) => 'id' in request && request.id)).toEqual(['1', '2', '3'])
  })

  test('sends 250 at once without waiting for the end of the turn', async () => {
    const { time, recorder, batcher } = setUp()
    for (let index = 0; index < 600; index += 1) void submitOnce(batcher, release(`a${index}`))
    expect(recorder.batches.map((batch) => batch.length)).toEqual([250, 250])
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([250, 250, 100])
  })

  test('sends renewals at the end of the turn, up to 500 at once', async () => {
    const { time, recorder, batcher } = setUp()
    for (let index = 0; index < 600; index += 1) {
      void submitOnce(batcher, { op: 'renew', key: `a${index}`, id: 'id', ttlMs: 1000 })
    }
    expect(recorder.batches).toEqual([])
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([500, 100])
  })

  test('sends renewals beside those under way, and holds back those that share a key', async () => {
    const { time, recorder, batcher } = setUp()
    const renew = (key: string, id = 'id'): void =>
      batcher.submit({ op: 'renew', key, id, ttlMs: 30_000 }, { answered: () => {} })
    for (const key of ['b', 'd', 'f']) renew(key)
    await time.advance(0)
    for (const key of ['a', 'c', 'e', 'g']) renew(key)
    await time.advance(0)
    for (const key of ['c', 'h']) renew(key, 'other')
    await time.advance(0)
    const keys = (): string[] => recorder.batches.map((batch) => batch.map((request) => keyOf(request)).join(''))
    expect(keys()).toEqual(['bdf', 'aceg', 'h'])
    recorder.answer()
    recorder.answer()
    await time.advance(0)
    expect(keys()).toEqual(['bdf', 'aceg', 'h', 'c'])
  })

  test('answers renewals in the order of their keys, and all else in the order asked', async () => {
    const { time, recorder, batcher } = setUp()
    const answered: string[] = []
    const submit = (request: Request): void =>
      batcher.submit(request, { answered: () => void answered.push(keyOf(request)) })
    for (const key of ['c', 'a', 'b']) submit({ op: 'renew', key, id: 'id', ttlMs: 10_000 })
    await time.advance(0)
    recorder.answer()
    await time.advance(0)
    for (const key of ['f', 'd', 'e']) submit(release(key))
    await time.advance(0)
    recorder.answer()
    await time.advance(0)
    expect(answered.join('')).toBe('abcfde')
  })

  test('keeps what one key asks for in order, also where a turn is divided', async () => {
    const { time, recorder, batcher } = setUp()
    for (let index = 0; index < 249; index += 1) void submitOnce(batcher, release(`a${index}`))
    for (let index = 0; index < 3; index += 1) void submitOnce(batcher, release('b', String(index)))
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([250])
    recorder.answer()
    await time.advance(0)
    expect(recorder.batches.at(-1)).toEqual([release('b', '1'), release('b', '2')])
  })

  test('never divides a key when many keys become free together', async () => {
    const { time, recorder, batcher } = setUp()
    const keys = Array.from({ length: 499 }, (_, index) => `a${String(index).padStart(3, '0')}`)
    const renewal = (key: string, id: string): Request => ({ op: 'renew', key, id, ttlMs: 1000 })
    for (const key of [...keys, 'b']) void submitOnce(batcher, renewal(key, 'first'))
    await time.advance(0)
    for (const key of [...keys, 'b', 'b', 'b', 'c']) void submitOnce(batcher, renewal(key, 'second'))
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([500, 1])
    recorder.answer()
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([500, 1, 499, 3])
  })

  test('does without a promise', async () => {
    const { time, recorder } = setUp()
    const send = (() => [absent]) as unknown as LockDriver['send']
    const batcher = new Batcher({ ...recorder.driver, send }, time.environment)
    expect(await submitOnce(batcher, release('a'))).toEqual(absent)
  })

  test('answers nobody before all of a turn have asked, even if the driver throws at once', async () => {
    const { time, recorder } = setUp()
    const send = (): never => {
      throw new Error('no route')
    }
    const batcher = new Batcher({ ...recorder.driver, send }, time.environment)
    const answered: string[] = []
    for (let index = 0; index < 250; index += 1) {
      batcher.submit(release(`a${index}`), { answered: (_, { state }) => answered.push(state) })
    }
    expect(answered).toEqual([])
    await batcher.settled()
    expect(answered).toEqual(Array(250).fill('unknown'))
  })

  test('answers unknown when the driver throws, with what it threw', async () => {
    const { time, batcher, recorder } = setUp()
    const failing = new Batcher(
      { ...recorder.driver, send: () => Promise.reject(new Error('no route')) },
      time.environment,
    )
    expect(await submitOnce(failing, release('a'))).toMatchObject({ state: 'unknown', error: { message: 'no route' } })
    await batcher.settled()
  })

  test.each<[string, unknown]>([
    ['too few answers', []],
    ['a fence that is no number', [{ state: 'held', fence: 'x', ttlMs: 5 }]],
    ['a fence beyond 2^53', [{ state: 'held', fence: 2 ** 60, ttlMs: 5 }]],
    ['a lease of negative length', [{ state: 'held', fence: 5, ttlMs: -1 }]],
    ['a lease without an end', [{ state: 'held', fence: 5, ttlMs: Infinity }]],
    ['a lease of a text', [{ state: 'held', fence: 5, ttlMs: '5' }]],
    ['nobody before', [{ state: 'held', fence: 5, ttlMs: 5, after: null }]],
    ['a reason nobody knows', [{ state: 'absent', reason: 'whim' }]],
    ['a number that JSON cannot have', [{ state: 'mine', size: 5n }]],
    ['a state nobody knows', [{ state: 'mine' }]],
    ['something that throws when it is read', [new Proxy({}, { get: () => expect.unreachable() })]],
    ['nothing', [undefined]],
    ['null', [null]],
    ['no list at all', undefined],
  ])('believes no driver that answers with %s', async (_what, answer) => {
    const { time, recorder } = setUp()
    const batcher = new Batcher(
      { ...recorder.driver, send: async () => answer as readonly ClaimStatus[] },
      time.environment,
    )
    expect(await submitOnce(batcher, release('a'))).toMatchObject({ state: 'unknown', error: { code: 'INVALID' } })
  })

  test('tells when each request was sent, from before the sending', async () => {
    const { time, recorder, batcher } = setUp()
    const sentAt = time.environment.now()
    let told = 0
    batcher.submit(release('a'), { answered: (_request, _status, sent) => (told = sent) })
    await time.advance(0)
    time.block(500)
    recorder.answer()
    await time.advance(0)
    expect(told).toBe(sentAt)
  })

  test('rounds when a request was sent to the safe side: down', async () => {
    const { time, recorder, batcher } = setUp()
    const sentAt = time.environment.now()
    time.block(0.9)
    let told = 0
    batcher.submit(release('a'), { answered: (_request, _status, sent) => (told = sent) })
    await time.advance(0)
    recorder.answer()
    await time.advance(0)
    expect(told).toBe(sentAt)
  })

  test('knows what is under way when one turn was sent in several batches and the first is answered', async () => {
    const { time, recorder, batcher } = setUp()
    const keys = Array.from({ length: 600 }, (_, number) => `key-${String(number).padStart(3, '0')}`)
    for (const key of keys) void submitOnce(batcher, { op: 'renew', key, id: 'id', ttlMs: 1000 })
    await time.advance(0)
    expect(recorder.batches.map((batch) => batch.length)).toEqual([500, 100])
    recorder.answer()
    await time.advance(0)
    for (const key of ['key-000', 'key-599']) void submitOnce(batcher, release(key))
    await time.advance(0)
    expect(recorder.batches.slice(2), 'one of the two is busy').toEqual([[release('key-000')]])
    recorder.answer()
    await time.advance(0)
    expect(recorder.batches.slice(3)).toEqual([[release('key-599')]])
  })

  test('lets a key be asked for again after a failure', async () => {
    const { time, recorder } = setUp()
    let failing: (() => void) | undefined
    const send: LockDriver['send'] = (requests) =>
      failing === undefined
        ? new Promise((_, reject) => (failing = () => reject(new Error('no route'))))
        : recorder.driver.send(requests)
    const batcher = new Batcher({ ...recorder.driver, send }, time.environment)
    void submitOnce(batcher, release('a', 'first'))
    await time.advance(0)
    void submitOnce(batcher, release('a', 'second'))
    await time.advance(0)
    failing?.()
    await time.advance(0)
    expect(recorder.batches).toEqual([[release('a', 'second')]])
  })

  test('is not settled while anything is under way', async () => {
    const { time, recorder, batcher } = setUp()
    void submitOnce(batcher, release('a'))
    await time.advance(0)
    const settled = batcher.settled()
    expect(await isSettled(settled)).toBe(false)
    recorder.answer()
    await settled
  })

  test('is settled when everything is answered, for all who ask', async () => {
    const { time, recorder, batcher } = setUp()
    let settled = false
    void submitOnce(batcher, release('a'))
    await time.advance(0)
    void submitOnce(batcher, release('a', 'second'))
    const wait = Promise.all([batcher.settled(), batcher.settled()]).then(() => (settled = true))
    await time.advance(0)
    recorder.answer()
    await time.advance(0)
    expect(settled).toBe(false)
    recorder.answer()
    await wait
    expect(settled).toBe(true)
  })
})

describe('how long a batch may take', () => {
  const renewal = (ttlMs: number): Request => ({ op: 'renew', key: 'a', id: 'id', ttlMs })

  test.each<[string, readonly Request[], number]>([
    ['a claim or a release: all that the store bears with', [release('a')], 20_000],
    ['a claim, however short its lease', [claiming(claimOf('a', { ttlMs: 600 }))], 20_000],
    ['a renewal: a third of its ttl', [renewal(18_000)], 6000],
    ['a renewal of a short lease: the same', [renewal(600)], 200],
    ['of a very short one: what a round trip takes', [renewal(3)], 50],
    ['renewals of long leases: a third of the shortest', [renewal(18_000), release('a'), renewal(30_000)], 6000],
    ['a renewal of a short lease hurries nobody else', [renewal(3), release('a')], 20_000],
  ])('%s', (_, requests, withinMs) => {
    expect(sendTimeoutFor(requests, 20_000)).toBe(withinMs)
  })
})
