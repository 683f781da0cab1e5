import { admit, type NotifiedClaim } from '../../core/rule/admission.ts'
import { keyOf } from '../../core/contract/requests.ts'
import { listed } from '../../core/rule/claim-record.ts'
import type { ListedClaim, Request, ClaimStatus } from '../../core/contract/driver.ts'
import { KeyState } from '../../core/rule/key-state.ts'

/** A notification that the model would push, with its key. */
export interface ModelNotification extends NotifiedClaim {
  readonly key: string
}

/** What every driver is measured by: the admission rule over plain memory, with a clock of its own. */
export class Model {
  now = 0
  readonly notifications: ModelNotification[] = []
  readonly #keys = new Map<string, KeyState>()
  /** Conversions that were granted since the last {@link beginConversionsAnew}. */
  readonly #converted: { readonly state: KeyState; readonly id: string }[] = []

  send(request: Request): ClaimStatus {
    const key = keyOf(request)
    const state = this.#state(key)
    const verdict = admit(state, request, this.now)
    state.apply(verdict)
    for (const { before, after } of verdict.changes) {
      const isGranted = after?.state === 'held' && before?.state !== 'held'
      if (isGranted && after.claim.replaces !== undefined) this.#converted.push({ state, id: after.claim.id })
    }
    for (const notifications of verdict.notifications) this.notifications.push({ ...notifications, key })
    return verdict.status
  }

  /** After a batch, for stores where a conversion does not end with the lease that it replaced. */
  beginConversionsAnew(): void {
    for (const { state, id } of this.#converted.splice(0)) {
      const record = state.find(id)
      if (record?.state === 'held')
        state.put({ ...record, lastHeartbeat: this.now, expiresAt: this.now + record.ttlMs })
    }
  }

  /** The claims of a key that are not over, as `list` shows them. */
  list(key: string): readonly ListedClaim[] {
    const state = this.#state(key)
    return [...state.holders(), ...state.waiters()].map(listed).filter((claim) => !isFinal(claim, this.now))
  }

  lastFence(key: string): number {
    return this.#state(key).lastFence
  }

  keys(): readonly string[] {
    return [...this.#keys.keys()]
  }

  #state(key: string): KeyState {
    let state = this.#keys.get(key)
    if (state === undefined) this.#keys.set(key, (state = new KeyState()))
    return state
  }
}

/** Whether a listed claim has ended, noticed or not. */
export function isFinal(claim: ListedClaim, now: number): boolean {
  return now >= claim.expiresAt + (claim.state === 'held' ? claim.graceMs : 0)
}
