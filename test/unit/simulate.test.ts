import { describe, expect, test } from 'vitest'
import { documentDriver, type DocumentStore } from '../../src/drivers/document/driver.ts'
import type { Claim, LockDriver, Request } from '../../src/core/contract/driver.ts'
import type { Environment } from '../../src/core/time/environment.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import {
  documentsOverNetwork,
  overNetwork,
  simulate,
  type SimulatedStore,
  type SimulationOptions,
  type ViolationKind,
} from '../../src/testing/index.ts'
import { DocumentShelf } from './support/document-shelf.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

const minutes = { timeout: 120_000 }
type Store = SimulationOptions['store']

/** A store that does the work itself, changed by `change`. */
const storeOf =
  (change: (driver: LockDriver) => Partial<LockDriver> = () => ({})): Store =>
  (clock) => {
    const plain = memory({ clock })
    const whole: LockDriver = {
      name: plain.name,
      supports: plain.supports,
      open: () => plain.open(),
      send: (requests) => plain.send(requests),
      list: (query) => plain.list(query),
      ...(plain.listen !== undefined && { listen: plain.listen.bind(plain) }),
      close: async () => {},
    }
    const changed = { ...whole, ...change(whole) }
    return { driver: (line) => overNetwork(line, changed), list: (query) => plain.list(query) }
  }

/** Processes that run the rule themselves, on documents, which are swapped as `change` has it. */
const documents =
  (change: (shelf: DocumentShelf) => Partial<DocumentStore<number>> = () => ({})): Store =>
  (clock): SimulatedStore => {
    const shelf = new DocumentShelf(() => Math.floor(clock.now()))
    const changed = () => ({ ...shelf.store(), ...change(shelf) })
    const whole = documentDriver(shelf.store())
    return {
      driver: (line, environment) => documentDriver(documentsOverNetwork(line, changed()), environment),
      list: (query) => whole.list(query),
    }
  }

/** Documents that are read long after the clock: what was written in between is newer than the reading. */
const slowDocuments: Store = (clock) => {
  const shelf = new DocumentShelf(() => Math.floor(clock.now()))
  const whole = documentDriver(shelf.store())
  return {
    driver(line, environment) {
      const store = documentsOverNetwork(line, shelf.store())
      return documentDriver(
        {
          ...store,
          async load(keys) {
            const { now, wall } = await store.load([])
            // A slow reader meets renewals of others only if they are quick.
            const waitMs = environment.random() < 0.1 ? 300 : 0
            await new Promise<void>((resolve) => environment.timer(waitMs, resolve))
            return { now, wall, loaded: (await store.load(keys)).loaded }
          },
        },
        environment,
      )
    },
    list: (query) => whole.list(query),
  }
}

const withoutQueue = storeOf(({ supports }) => ({ supports: { ...supports, queue: false, push: false } }))
const plain = storeOf(({ supports }) => ({
  supports: { ...supports, shared: false, limit: false, range: false, priority: false, ttlMinMs: 2000 },
}))

describe('a simulation', () => {
  test.each([
    ['of a store that does everything', { store: storeOf() }],
    ['of one that cannot do much, and wants long leases', { store: plain }],
    ['of one without a queue', { store: withoutQueue }],
    ['of documents that are swapped', { store: documents() }],
    ['of documents that are read after the clock', { store: slowDocuments }],
    ['in calm weather, in order', { store: storeOf(), weather: 'calm', processes: 5, workers: 1 }],
  ] as const)('finds nothing wrong where nothing is: %s', minutes, async (_which, options) => {
    let holds = 0
    for (let seed = 1; seed <= 6; seed += 1) {
      const { summary, events, violations, ...rest } = await simulate({ seed, ...options })
      expect({ seed, violations, ...rest }).toEqual({ seed, violations: [], stuck: [], left: [], timers: 0 })
      expect(events.length).toBeGreaterThan(summary.holds)
      holds += summary.holds
    }
    expect(holds, 'simulations without holds show nothing').toBeGreaterThan(100)
  })

  test('tells the same story for the same seed, and another for another', async () => {
    const [one, again, other] = await Promise.all(
      [3, 3, 4].map(async (seed) => (await simulate({ seed, store: storeOf() })).events),
    )
    expect(one).toEqual(again)
    expect(one).not.toEqual(other)
  })

  test('rejects with what a driver must not throw', async () => {
    const store = storeOf((driver) => ({
      send: (requests) => (requests.length > 0 ? Promise.resolve([]) : driver.send(requests)),
    }))
    await expect(simulate({ seed: 1, store })).rejects.toMatchObject({ code: 'INVALID' })
  })
})

/** Every claim on its way to the store, changed. */
const claiming = (change: (claim: Claim) => Claim): Store =>
  storeOf((driver) => ({
    send: (requests) =>
      driver.send(requests.map((each) => (each.op === 'claim' ? { op: 'claim', claim: change(each.claim) } : each))),
  }))

const half = (ttlMs: number): number => Math.ceil(ttlMs / 2)

/** By what it shows. */
interface Mutant extends Omit<SimulationOptions, 'seed'> {
  readonly by: ViolationKind | 'left' | 'timers'
}

const mutants: Readonly<Record<string, Mutant>> = {
  'writes whatever was written meanwhile': {
    by: 'overlap',
    store: documents((shelf) => ({
      swap: (swaps) =>
        shelf.store().swap(swaps.map((swap) => ({ ...swap, revision: shelf.documents.get(swap.key)?.revision ?? 0 }))),
    })),
  },
  'releases whoever holds': {
    by: 'overlap',
    store: storeOf((driver) => ({
      async send(requests) {
        const meant: Request[] = []
        for (const each of requests) {
          const { keys } = each.op === 'release' ? await driver.list({ key: each.key }) : { keys: [] }
          const [found] = keys
          const id = found?.claims[0]?.id
          meant.push(id === undefined ? each : { op: 'release', key: found?.key ?? '', id })
        }
        return driver.send(meant)
      },
    })),
  },
  'ends leases before the time it told': {
    by: 'overlap',
    // It says otherwise: a holder that is told how long its lease lasts would stop in time.
    store: storeOf((driver) => ({
      async send(requests) {
        const halved = requests.map((each): Request => {
          if (each.op === 'claim') return { op: 'claim', claim: { ...each.claim, ttlMs: half(each.claim.ttlMs) } }
          return each.op === 'renew' ? { ...each, ttlMs: half(each.ttlMs) } : each
        })
        const statuses = await driver.send(halved)
        return statuses.map((each) => ('ttlMs' in each ? { ...each, ttlMs: 2 * each.ttlMs } : each))
      },
    })),
  },
  'keeps leases for an hour': {
    by: 'left',
    store: claiming((claim) => ({ ...claim, ttlMs: 3_600_000 })),
  },
  'lets the last one in first': {
    by: 'unfair',
    weather: 'calm',
    processes: 5,
    workers: 1,
    store: (clock, faults) => {
      let claims = 0
      return claiming((claim) => ({ ...claim, priority: (claims += 1) }))(clock, faults)
    },
  },
  'counts fences anew': {
    by: 'fence-order',
    store: storeOf((driver) => ({
      async send(requests) {
        const statuses = await driver.send(requests)
        return statuses.map((each) => (each.state === 'held' ? { ...each, fence: 1 + (each.fence % 10) } : each))
      },
    })),
  },
  'has a timer left when it is closed': {
    by: 'timers',
    store: (clock, faults) => {
      const store = storeOf()(clock, faults)
      const remind = (environment: Environment): void => void environment.timer(1000, () => remind(environment))
      return {
        ...store,
        driver: (line, environment) => ({ ...store.driver(line, environment), open: async () => remind(environment) }),
      }
    },
  },
}

describe('a simulation finds a store that', () => {
  test.each(Object.entries(mutants))('%s', minutes, async (_name, { by, ...options }) => {
    const found = new Set<string>()
    for (let seed = 1; !found.has(by) && seed <= 20; seed += 1) {
      const { violations, left, timers } = await simulate({ ...options, seed })
      for (const { kind } of violations) found.add(kind)
      if (left.length > 0) found.add('left')
      if (timers > 0) found.add('timers')
    }
    expect([...found]).toContain(by)
  })
})
