/** What must follow from a position without further requests: waiters are granted, and no claim stays for ever. */
import type { admit } from '../../../src/core/rule/admission.ts'
import type { ClaimRecord } from '../../../src/core/rule/claim-record.ts'
import { Play } from './play.ts'
import type { Position } from './position.ts'
import type { Scene } from './scene.ts'

export function prospects(scene: Scene, position: Position, rule: typeof admit): string[] {
  return [...leftForEver(scene, position, rule), ...stuck(position, rule)]
}

/** A lease that does not run out while its owner waits. */
const longMs = 100

function playFrom({ now, store, dead }: Position, rule: typeof admit): Play {
  const play = new Play(rule, store)
  play.now = now
  for (const id of dead) play.dead.add(id)
  return play
}

/** If nobody renews, the next request finds all leases over, and a ttl later the key is as if never used. */
function leftForEver(scene: Scene, position: Position, rule: typeof admit): string[] {
  const { ttlMaxMs, graceMaxMs, roles } = scene
  const play = playFrom(position, rule)
  // What a clock set back has stretched is cut when the rule first comes to it, which may be a lease later for each.
  for (let round = 0; round <= (position.hasGoneBack ? roles.length : 0); round += 1) {
    if (position.hasGoneBack) play.release('a stranger')
    play.now += ttlMaxMs + graceMaxMs
  }
  play.release('a stranger')
  const left = [...play.holding(), ...play.waiting()]
  if (left.length > 0) return [`${left.join(' and ')} stays for ever`]
  play.now += ttlMaxMs
  play.release('a stranger')
  return play.state.idle ? [] : ['an idle key leaves something behind']
}

/** The first that waits gets in as soon as all in its way are gone, though it only polls when its status says so. */
function stuck(position: Position, rule: typeof admit): string[] {
  const { now, store, dead } = position
  const first = store.waiters.find((waiter) => now < waiter.expiresAt && !dead.has(waiter.claim.id))
  if (first === undefined) return []
  const gone = Math.max(
    0,
    ...store.holders.map(({ expiresAt, ttlMs, claim }) => Math.min(expiresAt - now, ttlMs) + claim.graceMs),
  )
  const atEveryTick = waitFor(first, playFrom(position, rule), gone, () => 1)
  const whenTold = waitFor(first, playFrom(position, rule), gone, (againMs) => againMs)
  // A waiter behind an unnoticed expiry polls when it renews; of other changes it is notified.
  const receives = store.waiters.some((waiter) => waiter !== first && waiter.claim.replaces !== undefined)
  if (atEveryTick !== undefined && (receives || first !== store.waiters[0])) return []
  if (atEveryTick === undefined) return [`${first.claim.id} waits for somebody who is gone`]
  return whenTold === atEveryTick ? [] : [`${first.claim.id} is told to ask again too late`]
}

/** After how long the waiter no longer waits. Undefined: not in time. */
function waitFor(
  { claim }: ClaimRecord,
  play: Play,
  atMost: number,
  pause: (againMs: number) => number,
): number | undefined {
  const end = play.now + atMost
  const startedAt = play.now
  let askAt = play.now
  for (; play.now <= end; play.now += 1) {
    // Its owner goes on renewing what it is to convert.
    if (claim.replaces !== undefined) play.renew(claim.replaces, longMs)
    if (play.now < askAt) continue
    const status = play.renew(claim.id, longMs)
    if (status.state !== 'waiting') return play.now - startedAt
    askAt = play.now + pause(status.againMs)
  }
  return undefined
}
