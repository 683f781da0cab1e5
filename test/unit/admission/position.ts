import type { ClaimRecord } from '../../../src/core/rule/claim-record.ts'
import type { Snapshot } from './play.ts'
import type { Role, Scene } from './scene.ts'

/** Where a scene has come to: what the store has, and what holders may believe. */
export interface Position {
  readonly now: number
  readonly store: Snapshot
  /** Ids whose processes the store has seen die. */
  readonly dead: ReadonlySet<string>
  readonly hasGoneBack: boolean
  readonly owners: readonly Owner[]
}

/** What the owner of a role knows. */
export interface Owner {
  /** Until when it may believe that it holds, had each request been sent at the very moment it was carried out. */
  readonly trustsUntil: number
  /** The shortest ttl it has asked for: any of its requests may be carried out again, so it trusts no answer beyond. */
  readonly boundMs: number
}

export function beginningOf({ roles }: Scene): Position {
  return {
    now: 0,
    // The key was held before.
    store: { lastFence: 10, ended: undefined, holders: [], waiters: [] },
    dead: new Set(),
    hasGoneBack: false,
    owners: roles.map(() => ({ trustsUntil: -Infinity, boundMs: Infinity })),
  }
}

/**
 * The same text for positions from which the same can happen: times are counted from now, fences and arrivals by their
 * order, what is over is over however long, and actors of one kind are told apart by nothing but where they stand.
 */
export function textOf(scene: Scene, position: Position): string {
  const backTicks = position.hasGoneBack ? 0 : scene.backTicks
  const byFence = position.store.holders.map(({ fence }) => fence).toSorted((a, b) => a - b)
  const about = scene.roles.map((role, index) => {
    const { trustsUntil, boundMs } = position.owners.at(index) as Owner
    const trust = Math.max(0, trustsUntil - position.now)
    const dead = position.dead.has(role.claim.id) ? 'd' : ''
    return `${recordText(scene, position, role, byFence, backTicks)}t${trust}${dead}b${boundMs}${endText(position, role, backTicks)}`
  })
  const actors = scene.actors.map(({ kind, roles }) => `${kind}:${roles.map((role) => about[role]).join('+')}`)
  const hasGap = position.store.lastFence > (byFence.at(-1) ?? 0)
  return `${backTicks}${hasGap ? 'f' : ''}${actors.toSorted().join('|')}`
}

function recordText(
  { staleMaxMs }: Scene,
  { now, store }: Position,
  { claim: { id } }: Role,
  byFence: readonly number[],
  backTicks: number,
): string {
  const place = store.holders.findIndex(({ claim }) => claim.id === id)
  if (place >= 0) {
    const { claim, ...holder } = store.holders.at(place) as ClaimRecord
    const isLast = holder.expiresAt >= holder.acquiredAt + (claim.maxHoldMs ?? Infinity)
    const rank = `h${place},${byFence.indexOf(holder.fence)},${holder.ttlMs}${holder.died === true ? 'd' : ''}`
    if (now >= holder.expiresAt + claim.graceMs + backTicks) return `${rank}o${isLast ? 'm' : ''}`
    const held = claim.maxHoldMs === undefined ? '' : `a${holder.acquiredAt - now}`
    const silence = staleMaxMs === 0 ? '' : `s${silenceText(holder, now, staleMaxMs + backTicks)}`
    return `${rank}e${holder.expiresAt - now}${held}${silence}${holder.leaving === undefined ? '' : 'l'}`
  }
  const rank = store.waiters.findIndex(({ claim }) => claim.id === id)
  if (rank < 0) return ''
  const waiter = store.waiters.at(rank) as ClaimRecord
  if (now >= waiter.expiresAt + backTicks) return `w${rank}o`
  const silence = staleMaxMs === 0 ? '' : `s${silenceText(waiter, now, staleMaxMs + backTicks)}`
  return `w${rank},${waiter.ttlMs}e${waiter.expiresAt - now}${silence}`
}

function silenceText({ lastHeartbeat }: Pick<ClaimRecord, 'lastHeartbeat'>, now: number, longest: number): number {
  return Math.min(longest, now - lastHeartbeat)
}

function endText({ now, store: { ended } }: Position, { claim: { id } }: Role, backTicks: number): string {
  if (ended?.id !== id || now >= ended.until + backTicks) return ''
  return `x${ended.how}${ended.until - now}${ended.told ? 't' : ''}`
}
