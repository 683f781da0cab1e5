import type { HistoryEvent, LoggedWish } from './event.ts'

/** One call of acquire and what became of it. */
export interface Attempt extends LoggedWish {
  readonly id: string
  readonly client: string
  readonly invokedAt: number
  /** The latest time by which the attempt had the place in the queue from which it was granted. */
  readonly queuedAt: number | undefined
  /** Undefined if the attempt was not granted, or its outcome is unknown. */
  readonly grant: LoggedGrant | undefined
  /** The acquire returned without a lease. */
  readonly refused: boolean
  /** Its process was stopped, or killed, while the attempt was under way: it may have lost its place. */
  readonly disturbed: boolean
}

export interface LoggedGrant {
  readonly fence: number
  readonly returnedAt: number
  /** Until when the lock was certainly held. At or before `returnedAt`: it was never certainly held. */
  readonly heldUntil: number
}

interface Draft {
  readonly wanted: Extract<HistoryEvent, { type: 'acquire' }>
  queuedAt?: number
  granted?: Extract<HistoryEvent, { type: 'granted' }>
  refused: boolean
  deadline?: number
  checkedAt?: number
  /** When the first event came after which the hold is no longer certain. */
  endedAt?: number
  disturbed: boolean
}

/** Gathers events, sorted by time, into attempts in the order of their invocation. */
export function attemptsOf(events: readonly HistoryEvent[]): Attempt[] {
  const drafts = new Map<string, Draft>()
  const open = new Map<string, Set<Draft>>()
  const lastSeen = new Map<string, number>()
  for (const event of events) {
    if (event.type === 'crash' || event.type === 'pause') {
      for (const draft of open.get(event.client) ?? []) {
        draft.disturbed = true
        if (event.type === 'crash') draft.endedAt ??= event.at
      }
      continue
    }
    if (event.type === 'acquire') {
      const draft: Draft = { wanted: event, refused: false, disturbed: false }
      drafts.set(event.attempt, draft)
      const openDrafts = open.get(event.client)
      if (openDrafts === undefined) open.set(event.client, new Set([draft]))
      else openDrafts.add(draft)
      lastSeen.set(event.client, event.at)
      continue
    }
    const draft = drafts.get(event.attempt)
    if (draft === undefined) throw new Error(`The history tells of attempt ${event.attempt} before it began.`)
    lastSeen.set(draft.wanted.client, event.at)
    note(draft, event)
    if (draft.refused || draft.endedAt !== undefined) open.get(draft.wanted.client)?.delete(draft)
  }
  return [...drafts].map(([id, draft]) => finish(id, draft, lastSeen.get(draft.wanted.client) ?? 0))
}

function note(draft: Draft, event: Exclude<HistoryEvent, { type: 'acquire' | 'crash' | 'pause' }>): void {
  switch (event.type) {
    case 'queued':
      draft.queuedAt = event.at
      break
    case 'granted':
      draft.granted = event
      if (event.deadline !== undefined) draft.deadline = event.deadline
      break
    case 'refused':
      draft.refused = true
      break
    case 'renewed':
      // If a holder renews after its deadline, say after a pause, the time between stays uncertain.
      if (draft.deadline === undefined || event.at < draft.deadline) draft.deadline = event.deadline
      break
    case 'checked':
      draft.checkedAt = event.at
      break
    case 'lost':
    case 'release':
      draft.endedAt ??= event.at
      break
    case 'released':
      break
  }
}

function finish(id: string, draft: Draft, lastSeenAt: number): Attempt {
  const { attempt: _attempt, type: _type, at, client, ...wanted } = draft.wanted
  const { granted } = draft
  return {
    ...wanted,
    id,
    client,
    invokedAt: at,
    queuedAt: draft.queuedAt,
    refused: draft.refused,
    disturbed: draft.disturbed,
    grant:
      granted === undefined
        ? undefined
        : { fence: granted.fence, returnedAt: granted.at, heldUntil: certainEnd(draft, granted.at, lastSeenAt) },
  }
}

/** The hold is certain until its release began, its deadline, the report of its loss or a crash, whatever came first. */
function certainEnd(draft: Draft, grantedAt: number, lastSeenAt: number): number {
  // Without a deadline only what the holder saw is certain.
  const trusted = draft.deadline ?? (draft.endedAt === undefined ? (draft.checkedAt ?? grantedAt) : Infinity)
  return Math.min(trusted, draft.endedAt ?? lastSeenAt)
}
