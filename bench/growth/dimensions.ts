/** What grows: claims on a key, keys, leases of a process, or clients. */
import type { Claim, ListQuery } from '../../src/core/contract/driver.ts'
import { ClaimsScene, type ClaimsLayout } from './claims-scene.ts'
import { ClientsScene } from './clients-scene.ts'
import type { StoreName } from './curve.ts'
import type { Scene, SceneSetup } from './scene.ts'

export interface Dimension {
  /** What the sizes count, for the tables. */
  readonly title: string
  readonly summary: string
  readonly sizes: readonly number[]
  /** The largest size on stores that cannot take the rest. */
  readonly largest?: Partial<Record<StoreName, number>>
  readonly scene: (setup: SceneSetup) => Scene
}

/** A list of one key shows this many claims, a list of keys as many keys. */
const page = 10

function onOneKey(name: string, layout: Omit<ClaimsLayout, 'list'>): Dimension['scene'] {
  const list = (size: number): ListQuery => ({ key: keyOf(name, size), claims: page })
  return (setup) => new ClaimsScene(setup, { ...layout, list })
}

function keyOf(name: string, size: number): string {
  return `growth/named:${name}-${size}`
}

function rangeOf(holder: number): NonNullable<Claim['range']> {
  return { start: holder * 100, end: holder * 100 + 50 }
}

const ranged = (name: string) => (size: number, holder: number) =>
  ({ key: keyOf(name, size), mode: 'exclusive', range: rangeOf(holder) }) as const

export const dimensions: Readonly<Record<string, Dimension>> = {
  waiters: {
    title: 'waiters',
    summary: 'One claim holds a key, the others wait for it.',
    sizes: [1, 10, 100, 1000, 10_000],
    largest: { mongodb: 100, etcd: 1000 },
    scene: onOneKey('waiters', {
      held: () => 1,
      waitingForEach: (size) => size,
      wish: (size) => ({ key: keyOf('waiters', size), mode: 'exclusive' }),
    }),
  },
  readers: {
    title: 'shared holders',
    summary: 'All hold one key, shared. What queues or is refused is exclusive.',
    sizes: [10, 100, 1000, 10_000],
    largest: { mongodb: 100, etcd: 1000 },
    scene: onOneKey('readers', {
      held: (size) => size,
      waitingForEach: () => 0,
      wish: (size) => ({ key: keyOf('readers', size), mode: 'shared' }),
      blocked: (size) => ({ key: keyOf('readers', size), mode: 'exclusive' }),
    }),
  },
  permits: {
    title: 'permits',
    summary: 'All permits of a semaphore are held.',
    sizes: [10, 100, 1000, 10_000],
    largest: { mongodb: 100, etcd: 1000 },
    scene: onOneKey('permits', {
      held: (size) => size,
      waitingForEach: () => 0,
      wish: (size) => ({ key: keyOf('permits', size), mode: 'shared', limit: size }),
    }),
  },
  ranges: {
    title: 'disjoint ranges',
    summary: 'As many disjoint ranges of one inode are held, each exclusively.',
    sizes: [10, 100, 1000, 10_000, 100_000],
    largest: { mongodb: 100, etcd: 1000 },
    scene: onOneKey('ranges', {
      held: (size) => size,
      waitingForEach: () => 0,
      wish: ranged('ranges'),
    }),
  },
  'contended-ranges': {
    title: 'ranges, each with a waiter',
    summary: 'As many disjoint ranges of one inode are held, and a claim waits for each.',
    sizes: [10, 100, 1000, 10_000],
    largest: { mongodb: 100, etcd: 1000 },
    scene: onOneKey('contended-ranges', {
      held: (size) => size,
      waitingForEach: () => 1,
      wish: ranged('contended-ranges'),
    }),
  },
  keys: {
    title: 'held keys',
    summary: 'As many keys are held, each by one claim. A list shows the first ten keys of a prefix.',
    sizes: [10, 1000, 10_000, 100_000, 1_000_000],
    largest: { mongodb: 10_000, etcd: 10_000 },
    scene: (setup) =>
      new ClaimsScene(setup, {
        held: (size) => size,
        waitingForEach: () => 0,
        wish: (_size, holder) => ({ key: keyOf('key', holder), mode: 'exclusive' }),
        list: () => ({ prefix: 'growth/', limit: page }),
        grows: true,
      }),
  },
  leases: {
    title: 'leases of a process',
    summary:
      'One client holds as many locks and renews them. Another client is refused, and takes turns with it on one more lock.',
    sizes: [1, 10, 100, 1000, 10_000, 100_000],
    largest: { mongodb: 1000, etcd: 1000 },
    scene: (setup) =>
      new ClientsScene(setup, { clients: () => 2, leases: (size, client) => (client === 0 ? size : 0) }),
  },
  clients: {
    title: 'clients',
    summary:
      'As many clients in one process, each with its own connections, hold a lock each and take turns on one more.',
    sizes: [1, 10, 100, 1000],
    largest: { postgres: 100, mongodb: 10, etcd: 100 },
    scene: (setup) => new ClientsScene(setup, { clients: (size) => size, leases: () => 1 }),
  },
}

/** A dimension by name. */
export function dimensionOf(name: string): Dimension {
  const dimension = new Map(Object.entries(dimensions)).get(name)
  if (dimension === undefined) throw new Error(`There is no dimension ${name}.`)
  return dimension
}

/** The sizes at which a store is measured. */
export function sizesOf(dimension: string, store: StoreName): readonly number[] {
  const { sizes, largest = {} } = dimensionOf(dimension)
  return sizes.filter((size) => size <= (largest[store] ?? Infinity))
}
