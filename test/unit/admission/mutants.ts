/** Faults to plant in the rule. Each changes a function of one of its parts, or what it is given and answers. */
import type { admit } from '../../../src/core/rule/admission.ts'
import type * as draft from '../../../src/core/rule/draft.ts'
import type * as record from '../../../src/core/rule/claim-record.ts'
import type { KeyView, Decision, ClaimRecord } from '../../../src/core/rule/claim-record.ts'
import type * as promotion from '../../../src/core/rule/promotion.ts'
import type * as conflict from '../../../src/core/rule/conflict.ts'
import type { Request, ClaimStatus } from '../../../src/core/contract/driver.ts'
import type * as fence from '../../../src/core/rule/fence.ts'
import type { PartName } from './scene.ts'

type Real = typeof draft & typeof promotion & typeof record & typeof conflict & typeof fence
type Rule = typeof admit

export interface Mutant {
  /** The claims that must meet for the fault to show. */
  readonly scene: readonly PartName[]
  readonly backTicks?: number
  /** The oracle's complaint about the fault. */
  readonly complaint: RegExp
  /** The part of the rule that is changed, and how. */
  readonly module?: string
  readonly replace?: (real: Real) => Partial<Real>
  readonly wrap?: (rule: Rule) => Rule
}

/** Changes what the rule decided. */
function decide(
  change: (decision: Decision, request: Request, now: number, view: KeyView) => Decision,
): (rule: Rule) => Rule {
  return (rule) => (view, request, now) => change(rule(view, request, now), request, now, view)
}

/** Changes every stored record, and its answers and notifications alike. */
function store(change: (after: ClaimRecord, before: ClaimRecord | undefined, now: number) => ClaimRecord) {
  return decide((decision, _request, now) => {
    let { status, notifications } = decision
    const changes = decision.changes.map(({ before, after }) => {
      if (after === undefined) return { before, after }
      const changed = change(after, before, now)
      const extended = (answered: ClaimStatus): ClaimStatus =>
        answered.state === 'held' ? { ...answered, ttlMs: changed.expiresAt - now } : answered
      if (status.state === 'held' && status.fence === after.fence) status = extended(status)
      notifications = notifications.map((notification) =>
        notification.record.claim.id === after.claim.id
          ? { record: changed, status: extended(notification.status) }
          : notification,
      )
      return { before, after: changed }
    })
    return { ...decision, status, notifications, changes }
  })
}

/** Changes what the rule sees of the store. */
function see(change: (view: KeyView, request: Request) => Partial<KeyView>): (rule: Rule) => Rule {
  return (rule) => (view, request, now) => {
    const same: KeyView = {
      lastFence: view.lastFence,
      fenceFloor: view.fenceFloor,
      ended: view.ended,
      holders: () => view.holders(),
      waiters: () => view.waiters(),
      find: (id) => view.find(id),
      ahead: (waiter) => view.ahead(waiter),
      nextOrder: () => view.nextOrder(),
    }
    return rule({ ...same, ...change(view, request) }, request, now)
  }
}

export const mutants: Readonly<Record<string, Mutant>> = {
  'lets a reader in beside a writer': {
    scene: ['writer on the left', 'reader on the left'],
    complaint: /is not held alone/,
    module: 'conflict',
    replace: ({ roomFor }) => ({
      roomFor: (claim, holders) =>
        roomFor(
          claim,
          claim.mode === 'shared' ? [...holders].filter((holder) => holder.claim.mode === 'shared') : holders,
        ),
    }),
  },
  'takes ranges that only touch for ones that overlap': {
    scene: ['writer on the left', 'writer on the right'],
    complaint: /waits for nothing/,
    module: 'conflict',
    replace: ({ roomFor }) => ({
      roomFor: (claim, holders) => ([...holders].length > 0 ? 'none' : roomFor(claim, holders)),
    }),
  },
  'gives one permit too many': {
    scene: ['holder of the only permit', 'holder of the only permit'],
    complaint: /more holders than 1/,
    module: 'conflict',
    replace: ({ roomFor }) => ({
      roomFor: (claim, holders) =>
        roomFor(
          claim.limit === undefined ? claim : { ...claim, limit: claim.limit + 1 },
          [...holders].map((holder) =>
            holder.claim.limit === undefined ? holder : { claim: { ...holder.claim, limit: holder.claim.limit + 1 } },
          ),
        ),
    }),
  },
  'mixes two limits': {
    scene: ['holder of one of two permits', 'reader'],
    complaint: /holders of two limits/,
    module: 'conflict',
    replace: ({ roomFor }) => ({
      roomFor: (claim, holders) => {
        const room = roomFor(claim, holders)
        return room === 'mismatch' ? 'room' : room
      },
    }),
  },
  'lets readers overtake a writer': {
    scene: ['reader', 'reader', 'writer'],
    complaint: /barged in/,
    module: 'conflict',
    replace: () => ({ standsInTheWay: () => false, holdsUpEverybody: () => false }),
  },
  'mints the last fence again': {
    scene: ['writer'],
    complaint: /was granted an old fence/,
    module: 'fence',
    replace: () => ({ nextFence: (last) => Math.max(1, last) }),
  },
  'gives all readers one fence': {
    scene: ['reader', 'reader'],
    complaint: /two holders have the same fence/,
    wrap: see((view, request) => {
      const joins = request.op === 'claim' && view.find(request.claim.id) === undefined && view.holders().length > 0
      return joins ? { lastFence: view.lastFence - 1 } : {}
    }),
  },
  'forgets the fence of a key that is idle': {
    scene: ['writer'],
    complaint: /the last fence fell/,
    wrap: decide((decision, request) => (request.op === 'release' ? { ...decision, lastFence: 0 } : decision)),
  },
  'lets a clock set back stretch a lease': {
    scene: ['writer'],
    backTicks: 2,
    complaint: /more than its ttl left/,
    module: 'claim-record',
    replace: () => ({ judge: (record) => record }),
  },
  'forgets the longest hold when it renews': {
    scene: ['writer for three ticks at most'],
    complaint: /is held too long/,
    module: 'claim-record',
    replace: () => ({ capByMaxHold: (end) => end }),
  },
  'overlooks priority': {
    scene: ['writer', 'writer', 'urgent writer'],
    complaint: /barged in|waits for nothing|ahead/,
    module: 'claim-record',
    replace: () => ({ compareRank: (a, b) => a.order - b.order }),
  },
  'moves nobody up when a lock is let go': {
    scene: ['writer', 'writer'],
    complaint: /waits for nothing|stays for ever/,
    wrap: see((_view, request) => (request.op === 'release' ? { waiters: () => [] } : {})),
  },
  'starts the lease anew when a waiter is let in': {
    scene: ['writer', 'writer'],
    complaint: /got more time/,
    wrap: store((after, before, now) =>
      before?.state === 'waiting' && after.state === 'held' ? { ...after, expiresAt: now + after.ttlMs } : after,
    ),
  },
  'gives a conversion less than its owner trusts': {
    scene: ['reader', 'reader that upgrades'],
    complaint: /believes in a lease/,
    wrap: store((after, before, now) =>
      before?.state === 'waiting' && after.state === 'held' ? { ...after, expiresAt: now + 1 } : after,
    ),
  },
  'shortens the lease of whoever is asked to leave': {
    scene: ['writer', 'preempting writer'],
    complaint: /believes in a lease/,
    wrap: store((after, _before, now) => (after.leaving === undefined ? after : { ...after, expiresAt: now + 1 })),
  },
  'lets whoever was asked to leave renew': {
    scene: ['reader', 'preempting writer'],
    complaint: /got more time/,
    wrap: store((after, before, now) =>
      before?.leaving !== undefined && after.state === 'held' ? { ...after, expiresAt: now + after.ttlMs } : after,
    ),
  },
  'does not tell whom it grants': {
    scene: ['writer', 'writer'],
    complaint: /was granted and does not hear it/,
    wrap: decide((decision) => ({
      ...decision,
      notifications: decision.notifications.filter(({ status }) => status.state !== 'held'),
    })),
  },
  'does not tell whom it turns out': {
    scene: ['writer', 'writer by force'],
    complaint: /is gone for no reason/,
    wrap: decide((decision) => ({
      ...decision,
      notifications: decision.notifications.filter(({ status }) => status.state !== 'absent'),
    })),
  },
  'begins a claim anew that has ended': {
    scene: ['writer'],
    complaint: /has ended and begins anew/,
    module: 'draft',
    replace: ({ KeyDraft }) => ({
      KeyDraft: class extends KeyDraft {
        override hasEnded(): boolean {
          return false
        }
      },
    }),
  },
  'lets a lease in its grace be converted': {
    scene: ['graceful reader that upgrades'],
    complaint: /took the place of nobody/,
    module: 'draft',
    replace: ({ KeyDraft }) => ({
      KeyDraft: class extends KeyDraft {
        override holds(id: string): boolean {
          return this.holders.find(id) !== undefined
        }
      },
    }),
  },
  'ends a lease without its grace': {
    scene: ['graceful writer', 'writer'],
    complaint: /is gone for no reason/,
    wrap: see((view) => ({
      holders: () => view.holders().map((holder) => ({ ...holder, claim: { ...holder.claim, graceMs: 0 } })),
    })),
  },
  'ends a lease a tick late': {
    scene: ['writer'],
    complaint: /is over and still held|stays for ever/,
    wrap: (rule) => (view, request, now) => rule(view, request, request.op === 'claim' ? now : now - 1),
  },
  'says to ask again too late': {
    scene: ['writer', 'writer'],
    complaint: /is told to ask again too late/,
    wrap: decide((decision) =>
      decision.status.state === 'waiting'
        ? { ...decision, status: { ...decision.status, againMs: decision.status.ttlMs } }
        : decision,
    ),
  },
  'releases whoever holds': {
    scene: ['writer', 'writer'],
    complaint: /is gone for no reason/,
    wrap: (rule) => (view, request, now) => {
      const [holder] = view.holders()
      const isRelease = request.op === 'release' && holder !== undefined
      return rule(view, isRelease ? { ...request, id: holder.claim.id } : request, now)
    },
  },
  'keeps a waiter that has died': {
    scene: ['writer', 'writer'],
    complaint: /stays for ever|waits for somebody who is gone/,
    module: 'claim-record',
    replace: ({ judge }) => ({
      judge: (record, now) =>
        record.state === 'waiting' && now >= record.expiresAt ? { ...record, expiresAt: now + 1 } : judge(record, now),
    }),
  },
  'lets two conversions wait for each other': {
    scene: ['reader that upgrades', 'reader that upgrades'],
    complaint: /wait for each other/,
    wrap: see((view, request) => {
      let isFirst =
        request.op === 'claim' && request.claim.replaces !== undefined && view.find(request.claim.id) === undefined
      return {
        waiters: () => {
          if (!isFirst) return view.waiters()
          isFirst = false
          return []
        },
      }
    }),
  },
  'queues who would not wait': {
    scene: ['writer', 'impatient writer'],
    complaint: /waits though it would not/,
    wrap: (rule) => (view, request, now) =>
      rule(view, request.op === 'claim' ? { ...request, claim: { ...request.claim, wait: true } } : request, now),
  },
  'remembers an end for ever': {
    scene: ['writer'],
    complaint: /leaves something behind/,
    wrap: (rule) => (view, request, now) => {
      const decision = rule(view, request, now)
      return { ...decision, ended: decision.ended ?? view.ended }
    },
  },
}
