import * as fc from 'fast-check'
import type { Claim, Request } from '../../../src/core/contract/driver.ts'
import { memory } from '../../../src/drivers/memory/driver.ts'
import { scriptOf, type ModelStep, type Step, type WishedClaim } from '../../../src/testing/model/command.ts'
import { scripts as commonScripts } from '../../../src/testing/model/generate.ts'
import { complaints } from './oracle.ts'
import { isDeepStrictEqual } from 'node:util'
import { claimOf, Play, type Turn } from './play.ts'

/** A request, or an event of the store: its clock is set back, a process is seen to die. */
export type Event =
  | ModelStep
  | { readonly type: 'back'; readonly ticks: number }
  | { readonly type: 'die'; readonly claim: number }

export function eventScripts(eventsMax: number): fc.Arbitrary<Event[]> {
  const { supports } = memory()
  const command = commonScripts(supports, 1).map(([event]) => event as Event)
  const back = fc.record({ type: fc.constant('back' as const), ticks: fc.integer({ min: 1, max: 40 }) })
  const die = fc.record({ type: fc.constant('die' as const), claim: fc.nat(8) })
  const event = fc.oneof(
    { weight: 30, arbitrary: command },
    { weight: 1, arbitrary: back },
    { weight: 2, arbitrary: die },
  )
  return fc.array(event, { minLength: 1, maxLength: eventsMax, size: 'max' })
}

/**
 * Plays a script on one key and stops at the first turn with which the oracle is not content. A second key finds its holders
 * by the index as soon as there are two, and must come to the same.
 */
export function firstComplaint(events: readonly Event[]): string | undefined {
  const play = new Play()
  const indexed = new Play(undefined, undefined, 0)
  const claims = new Map<string, Claim>()
  for (const [index, event] of events.entries()) {
    if (event.type === 'pass') play.now += event.ticks
    else if (event.type === 'back') play.now -= event.ticks
    else if (event.type === 'die') play.dead.add(`c${event.claim}`)
    else if (event.type === 'send') {
      for (const step of event.steps) {
        const request = requestOf(step, play, claims)
        // A process that renews or claims lives.
        if (request.op === 'renew') play.dead.delete(request.id)
        if (request.op === 'claim' && play.state.find(request.claim.id) === undefined)
          play.dead.delete(request.claim.id)
        const turn = play.turn(request)
        indexed.now = play.now
        indexed.dead.clear()
        for (const id of play.dead) indexed.dead.add(id)
        const wrong = [...complaints(turn), ...differences(turn, indexed.turn(request))]
        if (wrong.length > 0) return `event ${index + 1}, ${step.op} ${step.claim}: ${wrong.join(', ')}`
      }
    }
  }
  return undefined
}

/** What came out otherwise where holders were found by the index. */
function differences(turn: Turn, indexed: Turn): string[] {
  const outcome = ({ decision, after }: Turn): unknown => ({
    ...after,
    status: decision.status,
    notifications: told(decision),
  })
  return isDeepStrictEqual(outcome(turn), outcome(indexed)) ? [] : ['the index leads elsewhere']
}

/** In any order. */
function told({ notifications }: Turn['decision']): readonly string[] {
  return notifications.map(({ record, status }) => JSON.stringify([record.claim.id, status])).toSorted()
}

export function notify(events: readonly Event[]): string {
  return events
    .map((event) => {
      if (event.type === 'back') return `the clock is set back by ${event.ticks}`
      if (event.type === 'die') return `the process of ${event.claim} dies`
      return scriptOf([event])
    })
    .join('\n')
}

function requestOf(step: Step, play: Play, claims: Map<string, Claim>): Request {
  const id = `c${step.claim}`
  switch (step.op) {
    case 'claim': {
      let claim = claims.get(id)
      if (claim === undefined) claims.set(id, (claim = claimFor(id, step.wish)))
      return { op: 'claim', claim }
    }
    case 'renew': {
      const renewal = { op: 'renew', key: 'key', id, ttlMs: step.ttl } as const
      if (step.fenceLift === undefined) return renewal
      return { ...renewal, fenceFloor: play.state.lastFence + step.fenceLift }
    }
    case 'release':
      return { op: 'release', key: 'key', id }
    case 'withdraw':
      return { op: 'withdraw', key: 'key', id }
    case 'evict':
      return { op: 'evict', key: 'key', fence: play.state.find(id)?.fence ?? 0, reason: 'test' }
  }
}

function claimFor(id: string, wish: WishedClaim): Claim {
  return claimOf(id, {
    mode: wish.mode,
    ...(wish.limit !== undefined && { limit: wish.limit }),
    ...(wish.range !== undefined && { range: { start: wish.range[0], end: wish.range[1] } }),
    ...(wish.replaces !== undefined && { replaces: `c${wish.replaces}` }),
    priority: wish.priority,
    wait: wish.wait,
    ...(wish.evict !== undefined && { evict: wish.evict }),
    ...(wish.stale !== undefined && { staleMs: wish.stale }),
    ttlMs: wish.ttl,
    graceMs: wish.grace,
    ...(wish.maxHold !== undefined && { maxHoldMs: wish.maxHold }),
    runner: { id: `r${wish.runner}`, incarnation: '1', host: 'host', pid: 1, client: 'client' },
  })
}
