import type { ClaimStatus, Notification } from '../../core/contract/driver.ts'
import type { ModelComparison } from './compare.ts'
import type { ModelNotification } from './model.ts'

/** A notification as a driver's listener received it. */
export interface LoggedNotification {
  readonly driver: number
  readonly key: string
  readonly id: string
  readonly notification: Notification
}

/**
 * What the drivers' listeners received. A notification is a hint: some may be missing, and `'poll'` stands for any. Those
 * that arrive must be true and in order, and the last change of a claim must reach its owner, unless that asked since.
 */
export class NotificationLog {
  readonly #received: LoggedNotification[] = []
  readonly #gaps = new Set<number>()
  readonly #ownerOf: (id: string) => number
  /** How many notifications there had been when the owner of a claim released it, or sent it again. */
  readonly #askedAt = new Map<string, number>()

  constructor(ownerOf: (id: string) => number) {
    this.#ownerOf = ownerOf
  }

  note(received: LoggedNotification): void {
    // Other drivers may receive it too; only what reaches the owner counts.
    if (received.driver === this.#ownerOf(received.id)) this.#received.push(received)
  }

  /** The driver may have lost notifications: its listener polls every claim of its own, as after a `'poll'` for each. */
  noteGap(driver: number): void {
    this.#gaps.add(driver)
  }

  /** The owner has released the claim, or sent it again: earlier changes need not reach it any more. */
  noteAsked(id: string, notifiedBefore: number): void {
    this.#askedAt.set(id, Math.max(notifiedBefore, this.#askedAt.get(id) ?? 0))
  }

  /** Names a claim whose owner received neither its last notification nor a `'poll'`. */
  undelivered(expected: readonly ModelNotification[]): string | undefined {
    const last = new Map<string, ClaimStatus>()
    for (const [index, { record, status }] of expected.entries()) {
      const { id } = record.claim
      if (index >= (this.#askedAt.get(id) ?? 0)) last.set(id, status)
    }
    for (const { id, notification } of this.#received) {
      if (notification === 'poll' || notification.state === last.get(id)?.state) last.delete(id)
    }
    for (const id of last.keys()) if (this.#gaps.has(this.#ownerOf(id))) last.delete(id)
    for (const [id, status] of last) return `claim ${id} never heard: ${JSON.stringify(status)}`
    return undefined
  }

  /** Names a notification that is not true, or out of order. */
  difference(
    expected: readonly ModelNotification[],
    comparisonOf: (key: string) => ModelComparison,
  ): string | undefined {
    const toCome = new Map<string, ClaimStatus[]>()
    for (const { record, status } of expected) {
      const statuses = toCome.get(record.claim.id)
      if (statuses === undefined) toCome.set(record.claim.id, [status])
      else statuses.push(status)
    }
    for (const { key, id, notification } of this.#received) {
      if (notification === 'poll') continue
      const statuses = toCome.get(id) ?? []
      const at = statuses.findIndex((status) => comparisonOf(key).status(status, notification) === undefined)
      if (at < 0) return `claim ${id} heard ${JSON.stringify(notification)}, to come was ${JSON.stringify(statuses)}`
      statuses.splice(0, at + 1)
    }
    return undefined
  }
}
