import type { ClaimStatus, Notification } from '../../core/contract/driver.ts'
import type { ModelComparison } from './compare.ts'
import type { ModelNotification } from './model.ts'

/** One piece of news as a driver's listener got it. */
export interface LoggedNotification {
  readonly driver: number
  readonly key: string
  readonly id: string
  readonly notification: Notification
}

/**
 * What the drivers' listeners heard. News is a hint: some may be missing, and a nudge to ask stands for any. What is said
 * must be true and in order, though, and of the last that happened to a claim its owner must hear, unless it let go first.
 */
export class NotificationLog {
  readonly #received: LoggedNotification[] = []
  readonly #gaps = new Set<number>()
  readonly #ownerOf: (id: string) => number
  /** How much news there had been when the owner of a claim let go. */
  readonly #letGo = new Map<string, number>()

  constructor(ownerOf: (id: string) => number) {
    this.#ownerOf = ownerOf
  }

  note(received: LoggedNotification): void {
    // Others may overhear. Only what reaches the owner counts.
    if (received.driver === this.#ownerOf(received.id)) this.#received.push(received)
  }

  /** The driver may have lost notifications: its listener polls every claim of its own, as if told to for each. */
  noteGap(driver: number): void {
    this.#gaps.add(driver)
  }

  /** Its owner has let go of the claim: whatever happened to it before need not be heard any more. */
  noteRelease(id: string, notifiedBefore: number): void {
    this.#letGo.set(id, notifiedBefore)
  }

  /** Names a claim whose owner heard neither the last news of it nor a nudge to ask. */
  undelivered(expected: readonly ModelNotification[]): string | undefined {
    const last = new Map<string, ClaimStatus>()
    for (const [index, { record, status }] of expected.entries()) {
      const { id } = record.claim
      if (index >= (this.#letGo.get(id) ?? 0)) last.set(id, status)
    }
    for (const { id, notification } of this.#received) {
      if (notification === 'poll' || notification.state === last.get(id)?.state) last.delete(id)
    }
    for (const id of last.keys()) if (this.#gaps.has(this.#ownerOf(id))) last.delete(id)
    for (const [id, status] of last) return `claim ${id} never heard: ${JSON.stringify(status)}`
    return undefined
  }

  /** Names news that is not true, or out of order. */
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
