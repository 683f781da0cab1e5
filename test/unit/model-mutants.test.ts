import { describe, expect, test } from 'vitest'
import type {
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
  Notification,
} from '../../src/core/contract/driver.ts'
import { memory, type MemoryClock } from '../../src/drivers/memory/driver.ts'
import { compareWithModel, type Harness } from '../../src/testing/index.ts'

/** What a planted fault may change: what is sent, what is answered, what is listed, what is heard. */
interface Mutant {
  /** A seed whose first runs find it. @default 42 */
  readonly seed?: number
  request?(request: Request, turn: number): Request | undefined
  answer?(status: ClaimStatus, request: Request, turn: number): ClaimStatus
  page?(page: KeyPage): KeyPage
  receives?(status: Notification, turn: number): boolean
}

const rarely = (turn: number) => turn % 50 === 49

const released: ClaimStatus = { state: 'absent', reason: 'released' }

/** Each is a mistake a driver could make. The model test must find every one of them. */
const mutants: Readonly<Record<string, Mutant>> = {
  'repeats a fence': {
    seed: 8,
    answer: (() => {
      let last = 0
      return (status, _request, turn) => {
        if (status.state !== 'held') return status
        if (rarely(turn) && last > 0) return { ...status, fence: last }
        last = status.fence
        return status
      }
    })(),
  },
  'lets a fence fall': {
    seed: 8,
    answer: (status, _request, turn) =>
      status.state === 'held' && rarely(turn) ? { ...status, fence: status.fence - 1000 } : status,
  },
  'forgets a waiter': {
    seed: 14,
    request: (request, turn) => (request.op === 'renew' && rarely(turn) ? { ...request, op: 'release' } : request),
    answer: (status) => status,
  },
  'loses a release': {
    request: (request, turn) => (request.op === 'release' && rarely(turn) ? undefined : request),
  },
  'adds to a lease instead of setting its end': {
    request: (request) => (request.op === 'renew' ? { ...request, ttlMs: request.ttlMs + 1000 } : request),
  },
  'counts a ttl one millisecond short': {
    answer: (status) => (status.state === 'held' ? { ...status, ttlMs: status.ttlMs - 1 } : status),
  },
  'ignores priority': {
    request: (request) => (request.op === 'claim' ? { ...request, claim: { ...request.claim, priority: 0 } } : request),
  },
  'ignores grace': {
    request: (request) => (request.op === 'claim' ? { ...request, claim: { ...request.claim, graceMs: 0 } } : request),
  },
  'grants what should wait': {
    seed: 8,
    request: (request, turn) =>
      request.op === 'claim' && rarely(turn) ? { ...request, claim: { ...request.claim, evict: 'all' } } : request,
  },
  'takes ranges for closed': {
    request(request) {
      if (request.op !== 'claim' || request.claim.range === undefined) return request
      const { start, end } = request.claim.range
      return { ...request, claim: { ...request.claim, range: { start, end: end + 1 } } }
    },
  },
  'queues who would not wait': {
    request: (request) => (request.op === 'claim' ? { ...request, claim: { ...request.claim, wait: true } } : request),
  },
  'miscounts those ahead': {
    answer: (status) => (status.state === 'waiting' ? { ...status, ahead: Math.min(1, status.ahead) } : status),
  },
  'gives the wrong reason': {
    answer: (status) =>
      status.state === 'absent' && status.reason === 'expired' ? { ...status, reason: 'released' } : status,
  },
  'forgets that a holder is leaving': {
    answer: (status) =>
      status.state === 'held' ? { state: 'held', fence: status.fence, ttlMs: status.ttlMs } : status,
  },
  'lists one claim too few': {
    page: (page) => ({
      ...page,
      keys: page.keys.map(({ key, claims }) => ({ key, claims: claims.length > 2 ? claims.slice(0, -1) : claims })),
    }),
  },
  'lists waiters in the wrong order': {
    page: (page) => ({
      ...page,
      keys: page.keys.map(({ key, claims }) => ({
        key,
        claims: claims.toSorted(
          (one, other) => one.state.localeCompare(other.state) || other.enteredAt - one.enteredAt,
        ),
      })),
    }),
  },
  'keeps a grant to itself': {
    seed: 33,
    receives: (_news, turn) => !rarely(turn),
  },
}

function mutated(driver: LockDriver, mutant: Mutant): LockDriver {
  let turn = 0
  let received = 0
  return {
    name: driver.name,
    supports: driver.supports,
    open: () => driver.open(),
    async send(requests) {
      const statuses: ClaimStatus[] = []
      for (const request of requests) {
        turn += 1
        const sent = mutant.request === undefined ? request : mutant.request(request, turn)
        const [status = released] = sent === undefined ? [] : await driver.send([sent])
        statuses.push(mutant.answer?.(status, request, turn) ?? status)
      }
      return statuses
    },
    async list(query: ListQuery) {
      const page = await driver.list(query)
      return mutant.page?.(page) ?? page
    },
    listen: (onNotification) =>
      driver.listen?.((key, id, notifications) => {
        received += 1
        if (mutant.receives?.(notifications, received) ?? true) onNotification(key, id, notifications)
      }) as Disposable,
    close: () => driver.close(),
  }
}

let stores = 0

function harnessOf(mutant: Mutant): Harness {
  return {
    notifiedWithinMs: 20,
    async open() {
      let time = 0
      const clock: MemoryClock = { now: () => time, wall: () => 1_700_000_000_000 + time }
      const name = `mutants-${(stores += 1)}`
      return {
        driver: async () => mutated(memory({ name, clock }), mutant),
        advance: async (ms) => void (time += ms),
        close: async () => {},
      }
    },
  }
}

describe('the model test finds a driver that', () => {
  for (const [title, mutant] of Object.entries(mutants)) {
    test(title, async () => {
      const { seed = 42 } = mutant
      const { counterexample, commands } = await compareWithModel(harnessOf(mutant), { runs: 2000, seed })
      expect(counterexample, `${commands} commands found nothing`).toBeDefined()
      expect(counterexample?.script).toMatch(/driver|list/)
    })
  }

  test('changes nothing, and finds nothing', async () => {
    const { counterexample, runs } = await compareWithModel(harnessOf({}), { runs: 100 })
    expect(counterexample).toBeUndefined()
    expect(runs).toBe(100)
  })
})

describe('a counterexample', () => {
  test('is shrunk to a script a person can read', async () => {
    const mutant = mutants['queues who would not wait'] ?? {}
    const { counterexample } = await compareWithModel(harnessOf(mutant), { seed: 7 })
    const lines = counterexample?.script.split('\n') ?? []
    expect(lines.length).toBeLessThanOrEqual(3)
    expect(counterexample?.script).toMatch(/driver [01]: claim \d+ on [ab] (exclusive|shared)/)
    expect(counterexample?.difference).toMatch(/should be absent, not waiting/)
  })

  test('is played again by its seed and path', async () => {
    const mutant = mutants['queues who would not wait'] ?? {}
    const first = await compareWithModel(harnessOf(mutant), { seed: 7 })
    process.env['LEASEHOLD_REPLAY'] = first.counterexample?.replay
    try {
      const again = await compareWithModel(harnessOf(mutant))
      expect(again.counterexample?.script).toBe(first.counterexample?.script)
      expect(again.runs).toBe(1)
    } finally {
      delete process.env['LEASEHOLD_REPLAY']
    }
  })
})
