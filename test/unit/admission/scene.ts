import type { Claim } from '../../../src/core/contract/driver.ts'
import { claimOf } from './play.ts'

type Wish = Partial<Omit<Claim, 'id' | 'key'>>

/** An actor on the key: what it claims, and what it converts that into. Times are ticks of the store's clock. */
export interface Part {
  readonly wish: Wish
  readonly conversion?: Wish
  /** A second ttl that it may ask for when it renews. */
  readonly otherTtlMs?: number
  /** By how much it may raise the fence. */
  readonly fenceLift?: number
  /** Whether the store may see its process die. */
  readonly mortal?: boolean
}

const shared = { mode: 'shared' } as const
const left = { range: { start: 0, end: 2 } } as const
const middle = { range: { start: 1, end: 3 } } as const
const right = { range: { start: 2, end: 4 } } as const
const mine = { id: 'mine', incarnation: '1', host: 'host', pid: 1, client: 'client' } as const

/** Every kind of claim the rule knows, with leases as short as its kind allows. */
export const parts = {
  writer: { wish: {} },
  reader: { wish: shared },
  'holder of one of two permits': { wish: { ...shared, limit: 2 } },
  'holder of the only permit': { wish: { ...shared, limit: 1 } },
  'writer on the left': { wish: left },
  'reader on the left': { wish: { ...shared, ...left } },
  'writer in the middle': { wish: middle },
  'writer on the right': { wish: right },
  'urgent writer': { wish: { priority: 5 } },
  'urgent reader': { wish: { ...shared, priority: 5 } },
  'preempting writer': { wish: { priority: 5, evict: 'lower-priority' } },
  'writer that takes from the silent': { wish: { evict: 'stale', staleMs: 1 } },
  'writer of my runner': { wish: { runner: mine } },
  'reader that takes back': { wish: { ...shared, runner: mine, evict: 'same-runner' } },
  'writer by force': { wish: { evict: 'all' } },
  'graceful writer': { wish: { graceMs: 1 } },
  'graceful reader': { wish: { ...shared, graceMs: 2, ttlMs: 1 } },
  'writer for three ticks at most': { wish: { maxHoldMs: 3 } },
  'reader for one tick at most, with grace': { wish: { ...shared, maxHoldMs: 1, graceMs: 1 } },
  'impatient writer': { wish: { wait: false } },
  'impatient, urgent reader': { wish: { ...shared, wait: false, priority: 5 } },
  'writer that changes its ttl': { wish: { ttlMs: 3 }, otherTtlMs: 1 },
  'reader that lifts fences': { wish: shared, fenceLift: 3 },
  'mortal writer': { wish: { graceMs: 1 }, mortal: true },
  'reader that upgrades': { wish: shared, conversion: {} },
  'reader that tries to upgrade': { wish: { ...shared, ttlMs: 3 }, conversion: { wait: false, ttlMs: 1 } },
  'writer that downgrades': { wish: {}, conversion: { ...shared, wait: false } },
  'writer that moves to the right': { wish: left, conversion: right },
  'writer that moves to the left': { wish: right, conversion: left },
  'writer far out that moves to the left': { wish: { range: { start: 4, end: 6 } }, conversion: left },
  'graceful reader that upgrades': { wish: { ...shared, graceMs: 1 }, conversion: {} },
  'reader that upgrades, for three ticks at most': {
    wish: { ...shared, maxHoldMs: 3 },
    conversion: { ttlMs: 1, maxHoldMs: 3 },
  },
} as const satisfies Readonly<Record<string, Part>>

export type PartName = keyof typeof parts

/** One claim of the scene: its actor, and the requests that may be made for it. */
export interface Role {
  readonly claim: Claim
  /** Which of the scene's actors it belongs to. */
  readonly actor: number
  readonly renewalTtlsMs: readonly number[]
  readonly fenceLift: number | undefined
  readonly mortal: boolean
}

/** What may happen next. The same request may arrive any number of times, early and late. */
export type Event =
  | { readonly type: 'claim' | 'release' | 'withdraw' | 'evict' | 'die'; readonly role: number }
  | { readonly type: 'renew'; readonly role: number; readonly ttlMs: number; readonly fenceLift: number | undefined }
  | { readonly type: 'tick' }
  | { readonly type: 'back' }

/** Actors on one key, all that they may ask, and what the store's clock may do. */
export interface Scene {
  readonly name: string
  readonly roles: readonly Role[]
  /** The roles of each actor, and its kind: actors of one kind are interchangeable. */
  readonly actors: readonly { readonly kind: string; readonly roles: readonly number[] }[]
  readonly events: readonly Event[]
  /** By how many ticks the clock may be set back, once. */
  readonly backTicks: number
  readonly ttlMaxMs: number
  readonly graceMaxMs: number
  /** The longest `staleMs` of any claim. */
  readonly staleMaxMs: number
}

export function sceneOf(names: readonly PartName[], backTicks = 0): Scene {
  const roles: Role[] = []
  const actors = names.map((kind, actor) => {
    const part: Part = parts[kind]
    const id = `${kind} ${actor + 1}`
    const base = { actor, fenceLift: part.fenceLift, mortal: part.mortal ?? false }
    const first = roles.push({ ...base, ...roleOf(id, part.wish, part.otherTtlMs) }) - 1
    if (part.conversion === undefined) return { kind, roles: [first] }
    const converted = roleOf(`${id}, converted`, { ...part.conversion, replaces: id })
    return { kind, roles: [first, roles.push({ ...base, ...converted }) - 1] }
  })
  const clock: Event[] = backTicks > 0 ? [{ type: 'tick' }, { type: 'back' }] : [{ type: 'tick' }]
  return {
    name: names.join(', ') + (backTicks > 0 ? ', the clock set back' : ''),
    roles,
    actors,
    events: [...clock, ...roles.flatMap((role, index) => eventsOf(role, index))],
    backTicks,
    ttlMaxMs: Math.max(...roles.flatMap(({ renewalTtlsMs }) => renewalTtlsMs)),
    graceMaxMs: Math.max(...roles.map(({ claim }) => claim.graceMs)),
    staleMaxMs: Math.max(0, ...roles.map(({ claim }) => claim.staleMs ?? 0)),
  }
}

function roleOf(id: string, wish: Wish, otherTtlMs?: number): Pick<Role, 'claim' | 'renewalTtlsMs'> {
  const claim = claimOf(id, { ttlMs: 2, ...wish })
  return { claim, renewalTtlsMs: otherTtlMs === undefined ? [claim.ttlMs] : [claim.ttlMs, otherTtlMs] }
}

function eventsOf({ claim, renewalTtlsMs, fenceLift, mortal }: Role, role: number): Event[] {
  return [
    { type: 'claim', role },
    ...renewalTtlsMs.map((ttlMs): Event => ({ type: 'renew', role, ttlMs, fenceLift })),
    { type: 'release', role },
    ...(claim.replaces === undefined ? [] : [{ type: 'withdraw', role } as const]),
    { type: 'evict', role },
    ...(mortal ? [{ type: 'die', role } as const] : []),
  ]
}

/** Every choice of so many parts, each as often as one likes, in a fixed order. */
export function* choices(size: number, from: readonly PartName[] = partNames): Generator<readonly PartName[]> {
  if (size === 0) return yield []
  for (const [index, name] of from.entries()) {
    for (const rest of choices(size - 1, from.slice(index))) yield [name, ...rest]
  }
}

export const partNames = Object.keys(parts) as PartName[]

/** An event in words. */
export function tellEvent({ roles, backTicks }: Scene, event: Event): string {
  if (event.type === 'tick') return 'a tick passes'
  if (event.type === 'back') return `the clock is set back by ${backTicks}`
  const { id } = (roles.at(event.role) as Role).claim
  return event.type === 'renew' ? `renew ${id} for ${event.ttlMs}` : `${event.type} ${id}`
}
