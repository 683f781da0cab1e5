/**
 * What must be true after every request, said in the plainest way and without a line of the code under test: byte by
 * byte, claim by claim. Slow, and meant to be.
 */
import type { ClaimRecord } from '../../../src/core/rule/claim-record.ts'
import type { Claim } from '../../../src/core/contract/driver.ts'
import type { Turn } from './play.ts'

/** Ranges of the scripts end below this. A whole key touches all of these bytes. */
const bytes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

/** Everything wrong with a turn. */
export function complaints(turn: Turn): string[] {
  return [
    ...exclusion(turn),
    ...fences(turn),
    ...(renewsHolder(turn) ? touchesOthers(turn) : progress(turn)),
    ...barging(turn),
    ...conversions(turn),
    ...nothingLost(turn),
    ...answer(turn),
    ...changes(turn),
    ...notifications(turn),
    ...times(turn),
    ...forNothing(turn),
    ...cycles(turn),
  ]
}

/** Whether the turn renewed a holder, which concerns that holder alone. */
function renewsHolder({ request, before, decision }: Turn): boolean {
  if (request.op !== 'renew' || decision.status.state !== 'held') return false
  return before.holders.some(({ claim }) => claim.id === request.id)
}

/** A renewal neither ends nor promotes another claim, nor even reads its end. */
function touchesOthers({ request, decision }: Turn): string[] {
  const renewed = request.op === 'renew' ? request.id : ''
  return decision.changes
    .map(({ before, after }) => (before ?? after)?.claim.id ?? '')
    .filter((id) => id !== renewed)
    .map((id) => `${id} was changed by the renewal of ${renewed}`)
}

function touches(claim: Claim, byte: number): boolean {
  return claim.range === undefined || (claim.range.start <= byte && byte < claim.range.end)
}

function meet(a: Claim, b: Claim): boolean {
  return bytes.some((byte) => touches(a, byte) && touches(b, byte))
}

/** Whether a claim could be held beside all of these. */
function fits(claim: Claim, holders: readonly ClaimRecord[]): boolean {
  const inTheWay = holders
    .map((holder) => holder.claim)
    .filter((held) => held.id !== claim.replaces && meet(held, claim))
  if (inTheWay.some((held) => held.mode === 'exclusive' || claim.mode === 'exclusive')) return false
  if (inTheWay.some((held) => held.limit !== claim.limit)) return false
  return claim.limit === undefined || inTheWay.length < claim.limit
}

function exclusion({ after }: Turn): string[] {
  const wrong: string[] = []
  for (const byte of bytes) {
    const here = after.holders.map(({ claim }) => claim).filter((claim) => touches(claim, byte))
    if (here.length > 1 && here.some(({ mode }) => mode === 'exclusive')) wrong.push(`byte ${byte} is not held alone`)
    for (const { limit } of here) {
      if (limit !== undefined && here.length > limit) wrong.push(`byte ${byte} has more holders than ${limit}`)
      if (here.some((holder) => holder.limit !== limit)) wrong.push(`byte ${byte} has holders of two limits`)
    }
  }
  return wrong
}

function fences({ before, after, decision }: Turn): string[] {
  const wrong: string[] = []
  const known = new Map(before.holders.map((record) => [record.claim.id, record.fence]))
  const all = after.holders.map(({ fence }) => fence)
  if (new Set(all).size !== all.length) wrong.push('two holders have the same fence')
  if (decision.lastFence < before.lastFence) wrong.push('the last fence fell')
  for (const { claim, fence } of after.holders) {
    const old = known.get(claim.id)
    if (old === undefined && fence <= before.lastFence) wrong.push(`${claim.id} was granted an old fence`)
    if (old !== undefined && fence < old) wrong.push(`the fence of ${claim.id} fell`)
    if (fence > after.lastFence) wrong.push(`the fence of ${claim.id} is above the last`)
  }
  return wrong
}

/** In the order of promotion: conversions, priority, arrival. */
function inOrder(waiters: readonly ClaimRecord[]): ClaimRecord[] {
  return waiters.toSorted((a, b) => {
    if ((a.claim.replaces === undefined) !== (b.claim.replaces === undefined)) {
      return a.claim.replaces === undefined ? 1 : -1
    }
    return b.claim.priority - a.claim.priority || a.order - b.order
  })
}

function lives(turn: Turn, record: ClaimRecord): boolean {
  return turn.now < record.expiresAt && !turn.dead.has(record.claim.id)
}

function baseIsHeld(turn: Turn, { claim }: ClaimRecord): boolean {
  if (claim.replaces === undefined) return true
  return turn.after.holders.some((holder) => holder.claim.id === claim.replaces && turn.now < holder.expiresAt)
}

/** A waiter that conflicts with no holder and no earlier waiter is granted. */
function progress(turn: Turn): string[] {
  const { after } = turn
  const queue = inOrder(after.waiters).filter((waiter) => lives(turn, waiter) && baseIsHeld(turn, waiter))
  return queue
    .filter((waiter, place) => {
      const { claim } = waiter
      const ahead = queue.slice(0, place).map((earlier) => earlier.claim)
      const blocked = ahead.some((earlier) => holdsUp(earlier, claim))
      return !blocked && fits(claim, after.holders)
    })
    .map(({ claim }) => `${claim.id} waits for nothing`)
}

/** No claim is granted past an earlier waiter that it conflicts with, except a conversion or a claim that evicts. */
function barging(turn: Turn): string[] {
  const { before, after } = turn
  const known = new Set(before.holders.map(({ claim }) => claim.id))
  const granted = after.holders.filter(({ claim }) => !known.has(claim.id))
  return granted
    .filter((record) => {
      const { claim } = record
      if (claim.replaces !== undefined || claim.evict === 'all' || claim.evict === 'same-runner') return false
      const ahead = inOrder([...after.waiters, record]).filter(
        (waiter) => lives(turn, waiter) && baseIsHeld(turn, waiter),
      )
      return ahead.slice(0, ahead.indexOf(record)).some((waiter) => holdsUp(waiter.claim, claim))
    })
    .map(({ claim }) => `${claim.id} barged in`)
}

/** A conversion takes the place of a lease that is not over. */
function conversions({ now, before, after }: Turn): string[] {
  const held = new Set(before.holders.filter(({ expiresAt }) => now < expiresAt).map(({ claim }) => claim.id))
  const known = new Set(before.holders.map(({ claim }) => claim.id))
  return after.holders
    .filter(({ claim: { id, replaces } }) => replaces !== undefined && !known.has(id) && !held.has(replaces))
    .map(({ claim }) => `${claim.id} took the place of nobody`)
}

/** Whether a waiter keeps a later one from being granted. */
function holdsUp(ahead: Claim, behind: Claim): boolean {
  if (!meet(ahead, behind)) return false
  if (ahead.mode === 'exclusive' || behind.mode === 'exclusive') return true
  return ahead.limit !== undefined || behind.limit !== undefined
}

/** A claim that is gone was released, expired, evicted, converted or dead. */
function nothingLost(turn: Turn): string[] {
  const { request, now, before, after, decision, dead } = turn
  const there = new Set([...after.holders, ...after.waiters].map(({ claim }) => claim.id))
  const notified = new Set(
    decision.notifications
      .filter(({ status }) => status.state === 'absent')
      .map((notification) => notification.record.claim.id),
  )
  const converted = new Set(after.holders.map(({ claim }) => claim.replaces))
  const asking = request.op === 'claim' ? request.claim.id : request.op === 'evict' ? undefined : request.id
  return [...before.holders, ...before.waiters]
    .filter((record) => {
      const { id, graceMs, replaces } = record.claim
      if (there.has(id) || notified.has(id) || converted.has(id) || dead.has(id)) return false
      if (request.op === 'release' && request.id === id) return false
      if (id === asking && decision.status.state === 'absent') return false
      const held = record.state === 'held'
      if (now >= record.expiresAt + (held ? graceMs : 0)) return false
      // A claim that begins anew is not what its conversion was to take the place of.
      const wasBaseHeld = before.holders.some((holder) => holder.claim.id === replaces)
      return held || replaces === undefined || (wasBaseHeld && baseIsHeld(turn, record))
    })
    .map(({ claim }) => `${claim.id} is gone for no reason`)
}

/** The answer to a request is the claim's status in the store. */
function answer({ request, now, after, decision }: Turn): string[] {
  if (request.op === 'evict') return []
  const id = request.op === 'claim' ? request.claim.id : request.id
  const { status } = decision
  const holder = after.holders.find(({ claim }) => claim.id === id)
  const waiter = after.waiters.find(({ claim }) => claim.id === id)
  if (holder !== undefined && waiter !== undefined) return [`${id} both holds and waits`]
  if (status.state === 'held') {
    if (holder === undefined) return [`${id} was told that it holds`]
    const right = status.fence === holder.fence && status.ttlMs === holder.expiresAt - now && status.ttlMs > 0
    return right ? [] : [`${id} was told another fence or ttl than it has`]
  }
  if (status.state === 'waiting') {
    if (waiter === undefined) return [`${id} was told that it waits`]
    if (request.op === 'claim' && !request.claim.wait) return [`${id} waits though it would not`]
    const place = inOrder(after.waiters).indexOf(waiter)
    if (status.ahead !== place) return [`${id} has ${place} ahead, not ${status.ahead}`]
    if (status.ttlMs !== waiter.expiresAt - now) return [`${id} was told another ttl than it has`]
    return status.againMs > 0 && status.againMs <= Math.max(1, status.ttlMs) ? [] : [`${id} should ask never again`]
  }
  if (waiter !== undefined) return [`${id} waits and was told otherwise`]
  return holder === undefined || now >= holder.expiresAt ? [] : [`${id} holds and was told otherwise`]
}

/** A store that only carries out the changes comes to the same state. */
function changes({ before, after, decision }: Turn): string[] {
  const wrong: string[] = []
  const store = new Map([...before.holders, ...before.waiters].map((record) => [record.claim.id, record]))
  for (const { before: old, after: next } of decision.changes) {
    const id = (old ?? next)?.claim.id ?? ''
    if (old === undefined && store.has(id)) wrong.push(`${id} is new and yet there`)
    if (old !== undefined && store.get(id)?.state !== old.state)
      wrong.push(`${id} is changed and was not there as such`)
    if (old === undefined && next === undefined) wrong.push('a change changes nothing')
    if (next === undefined) store.delete(id)
    else store.set(id, next)
  }
  const there = [...after.holders, ...after.waiters]
  if (there.length !== store.size || there.some((record) => store.get(record.claim.id) !== record))
    wrong.push('the changes lead elsewhere')
  const ordered = inOrder(after.waiters)
  if (after.waiters.some((waiter, place) => waiter !== ordered[place])) wrong.push('the waiters are out of order')
  return wrong
}

/** Every other claim whose status changed is notified, and each notification is true. */
function notifications({ request, before, after, decision, now }: Turn): string[] {
  const wrong: string[] = []
  const asking = request.op === 'claim' ? request.claim.id : request.op === 'evict' ? undefined : request.id
  const held = new Map(after.holders.map((record) => [record.claim.id, record]))
  for (const { record, status } of decision.notifications) {
    const { id } = record.claim
    const holder = held.get(id)
    if (id === asking) wrong.push(`${id} asked and hears it twice`)
    if (status.state === 'held' && (holder?.fence !== status.fence || holder.expiresAt - now !== status.ttlMs)) {
      wrong.push(`${id} hears that it holds`)
    }
    if (status.state === 'absent' && holder !== undefined) wrong.push(`${id} hears that it is gone`)
    if (status.state === 'waiting' || status.state === 'unknown') wrong.push(`${id} is notified of no change`)
  }
  const received = new Set(decision.notifications.map(({ record }) => record.claim.id))
  const known = new Map(before.holders.map((record) => [record.claim.id, record]))
  for (const { claim, leaving } of after.holders) {
    const old = known.get(claim.id)
    if (claim.id === asking || received.has(claim.id)) continue
    if (old === undefined) wrong.push(`${claim.id} was granted and does not hear it`)
    else if (old.leaving !== leaving) wrong.push(`${claim.id} must leave and does not hear it`)
  }
  return wrong
}

/** Leases end when they should, and only their owner moves their end. */
function times(turn: Turn): string[] {
  const { request, now, before, after } = turn
  const wrong: string[] = []
  const known = new Map([...before.holders, ...before.waiters].map((record) => [record.claim.id, record]))
  for (const record of after.holders) {
    const { id, maxHoldMs, graceMs } = record.claim
    const old = known.get(id)
    const isSettled = !renewsHolder(turn) || (request.op === 'renew' && request.id === id)
    if (isSettled && now >= record.expiresAt + graceMs) wrong.push(`${id} is over and still held`)
    if (isSettled && record.expiresAt - now > record.ttlMs) wrong.push(`${id} has more than its ttl left`)
    if (maxHoldMs !== undefined && record.expiresAt > record.acquiredAt + maxHoldMs)
      wrong.push(`${id} is held too long`)
    if (record.acquiredAt > now && old?.state !== 'held') wrong.push(`${id} was granted in the future`)
    if (old === undefined) continue
    const renewing = request.op === 'renew' && request.id === id
    // A conversion has at least what was left of the lease whose place it took.
    const base = old.state === 'waiting' ? known.get(record.claim.replaces ?? '') : undefined
    const hadUntil = Math.max(old.expiresAt, base?.expiresAt ?? 0)
    if (record.expiresAt > hadUntil && (!renewing || old.leaving !== undefined)) wrong.push(`${id} got more time`)
  }
  return wrong
}

/** A claim that evicts holders is granted in the same turn. */
function forNothing({ request, before, after, decision }: Turn): string[] {
  if (request.op !== 'claim' && request.op !== 'renew') return []
  const id = request.op === 'claim' ? request.claim.id : request.id
  const claim = request.op === 'claim' ? request.claim : before.waiters.find((waiter) => waiter.claim.id === id)?.claim
  if (claim?.evict !== 'all' && claim?.evict !== 'same-runner') return []
  const evicted = decision.notifications.some(({ status }) => status.state === 'absent' && status.reason === 'evicted')
  if (!evicted || after.holders.some((holder) => holder.claim.id === id)) return []
  return [`${id} turned somebody out and holds nothing`]
}

/** No two conversions wait for each other's old claim. */
function cycles(turn: Turn): string[] {
  const { after } = turn
  const held = new Map(after.holders.map((record) => [record.claim.id, record.claim]))
  const converting = after.waiters.filter(
    (waiter) => waiter.claim.replaces !== undefined && lives(turn, waiter) && baseIsHeld(turn, waiter),
  )
  const wrong: string[] = []
  for (const { claim: first } of converting) {
    for (const { claim: second } of converting) {
      const base = held.get(first.replaces ?? '')
      const otherBase = held.get(second.replaces ?? '')
      if (first.id >= second.id || base === undefined || otherBase === undefined || base === otherBase) continue
      const excludes = (wanted: Claim, inTheWay: Claim) =>
        meet(wanted, inTheWay) && (wanted.mode === 'exclusive' || inTheWay.mode === 'exclusive')
      if (excludes(first, otherBase) && excludes(second, base))
        wrong.push(`${first.id} and ${second.id} wait for each other`)
    }
  }
  return wrong
}
