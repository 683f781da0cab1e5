import { admit } from '../../../src/core/rule/admission.ts'
import type { Request } from '../../../src/core/contract/driver.ts'
import { complaints } from './oracle.ts'
import { deceived, ownersAfter } from './owners.ts'
import { Play, type Turn } from './play.ts'
import { beginningOf, textOf, type Position } from './position.ts'
import { prospects } from './prospects.ts'
import { tellEvent, type Event, type Role, type Scene } from './scene.ts'
import { Seen } from './seen.ts'

/** What a search saw. */
export interface Findings {
  readonly states: number
  readonly transitions: number
  /** Whether every position that can be reached was seen. */
  readonly complete: boolean
  /** The first complaint, with the shortest path to it. */
  readonly complaint: string | undefined
}

export interface SearchOptions {
  readonly rule?: typeof admit
  /** Asked before each position is left: true ends the search. */
  readonly isOver?: () => boolean
}

interface Step {
  readonly position: Position
  readonly wrong: readonly string[]
}

/** Where the search has been, and how it got there. */
interface Node {
  readonly position: Position
  readonly from: Node | undefined
  readonly event: Event | undefined
}

/** Breadth-first through everything that can happen in a scene. */
export function search(scene: Scene, { rule = admit, isOver = () => false }: SearchOptions = {}): Findings {
  const seen = new Seen()
  const beginning = beginningOf(scene)
  seen.add(textOf(scene, beginning))
  let edge: Node[] = [{ position: beginning, from: undefined, event: undefined }]
  let transitions = 0
  const findings = (complete: boolean, complaint?: string): Findings => ({
    states: seen.size,
    transitions,
    complete,
    complaint,
  })
  while (edge.length > 0) {
    const next: Node[] = []
    for (const node of edge) {
      if (isOver()) return findings(false)
      for (const event of scene.events) {
        const step = stepTo(scene, node.position, event, rule)
        if (step === undefined) continue
        transitions += 1
        const { position, wrong } = step
        const arrived: Node = { position, from: node, event }
        if (wrong.length > 0) return findings(false, notify(scene, arrived, wrong))
        if (!seen.add(textOf(scene, position))) continue
        const ahead = prospects(scene, position, rule)
        if (ahead.length > 0) return findings(false, notify(scene, arrived, ahead))
        next.push(arrived)
      }
    }
    edge = next
  }
  return findings(true)
}

/** The position after an event; undefined if the event cannot happen. */
function stepTo(scene: Scene, position: Position, event: Event, rule: typeof admit): Step | undefined {
  if (event.type === 'tick') return timeTo(scene, position, position.now + 1)
  if (event.type === 'back') {
    if (position.hasGoneBack) return undefined
    const { backTicks } = scene
    // Holders have clocks of their own.
    const owners = position.owners.map((owner) => ({ ...owner, trustsUntil: owner.trustsUntil - backTicks }))
    return timeTo(scene, { ...position, owners, hasGoneBack: true }, position.now - backTicks)
  }
  const { claim } = scene.roles.at(event.role) as Role
  if (event.type === 'die') {
    if (position.dead.has(claim.id) || !has(position, claim.id)) return undefined
    const owners = position.owners.with(event.role, { trustsUntil: -Infinity, boundMs: Infinity })
    return { position: { ...position, dead: new Set([...position.dead, claim.id]), owners }, wrong: [] }
  }
  const request = requestFor(scene, position, event)
  if (request === undefined) return undefined
  const play = new Play(rule, position.store)
  play.now = position.now
  for (const id of position.dead) play.dead.add(id)
  // A process that renews lives, and so does one that begins anew.
  if (event.type === 'renew' || (event.type === 'claim' && !has(position, claim.id))) play.dead.delete(claim.id)
  const turn = play.turn(request)
  const after: Position = {
    ...position,
    store: turn.after,
    dead: turn.dead,
    owners: ownersAfter(scene, position, event, turn),
  }
  return { position: after, wrong: [...complaints(turn), ...turnedBack(turn), ...deceived(scene, after)] }
}

function timeTo(scene: Scene, position: Position, now: number): Step {
  const later = { ...position, now }
  return { position: later, wrong: deceived(scene, later) }
}

function has({ store }: Position, id: string): boolean {
  return (
    store.holders.some((holder) => holder.claim.id === id) || store.waiters.some((waiter) => waiter.claim.id === id)
  )
}

function requestFor(scene: Scene, { store }: Position, event: Event): Request | undefined {
  if (!('role' in event) || event.type === 'die') return undefined
  const { claim } = scene.roles.at(event.role) as Role
  const { id, key } = claim
  switch (event.type) {
    case 'claim':
      return { op: 'claim', claim }
    case 'renew': {
      const renewal = { op: 'renew', key, id, ttlMs: event.ttlMs } as const
      return event.fenceLift === undefined ? renewal : { ...renewal, fenceFloor: store.lastFence + event.fenceLift }
    }
    case 'release':
    case 'withdraw':
      return { op: event.type, key, id }
    case 'evict': {
      const fence = store.holders.find((holder) => holder.claim.id === id)?.fence
      return fence === undefined ? undefined : { op: 'evict', key, fence, reason: 'test' }
    }
  }
}

/** A status moves from waiting to held to absent, and begins anew by its own claim only, once its end is forgotten. */
function turnedBack({ request, now, before, after }: Turn): string[] {
  const wrong: string[] = []
  const held = new Set(before.holders.map(({ claim }) => claim.id))
  const waited = new Set(before.waiters.map(({ claim }) => claim.id))
  for (const { claim, state } of [...after.holders, ...after.waiters]) {
    const { id } = claim
    if (state === 'waiting' && held.has(id)) wrong.push(`${id} held and waits`)
    if (held.has(id) || waited.has(id)) continue
    if (request.op !== 'claim' || request.claim.id !== id) wrong.push(`${id} is there though it did not ask`)
    if (before.ended?.id === id && after.ended?.id === id && now < before.ended.until)
      wrong.push(`${id} has ended and begins anew`)
  }
  return wrong
}

/** The path to a complaint, a line for each event. */
function notify(scene: Scene, arrived: Node, wrong: readonly string[]): string {
  const way: string[] = []
  for (let node: Node | undefined = arrived; node?.event !== undefined; node = node.from) {
    way.unshift(tellEvent(scene, node.event))
  }
  return `${wrong.join(', ')}\nin the scene of ${scene.name}:\n${way.map((line) => `  ${line}`).join('\n')}`
}
