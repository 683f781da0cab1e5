import type { Lease } from '../../../src/index.ts'
import type { LeaseholdError } from '../../../src/core/errors.ts'
import { monotonicMs } from '../../../src/core/machine/machine-clock.ts'
import { historyLog, type HistoryEvent, type HistoryLog } from '../../../src/testing/index.ts'

type LoggedWish = Omit<Extract<HistoryEvent, { type: 'acquire' }>, 'type' | 'at' | 'client' | 'attempt'>

/** What a client process writes down. */
export class ClientLog {
  readonly #history: HistoryLog
  readonly #client: string
  #attempts = 0
  #failures: Record<string, number> = {}

  constructor(file: string, client: string) {
    this.#history = historyLog(file)
    this.#client = client
  }

  /** A call of acquire, or of whatever else is granted. */
  begin(wanted: LoggedWish): string {
    const attempt = `${this.#client}-${(this.#attempts += 1)}`
    this.#history.write({ type: 'acquire', client: this.#client, attempt, ...wanted })
    return attempt
  }

  granted(attempt: string, lease: Lease): void {
    // The clock is read first: a process may be stopped between the two.
    const now = monotonicMs()
    const deadline = now + lease.remainingMs
    this.#history.write({ type: 'granted', attempt, fence: lease.fence, deadline })
  }

  /** A hold of which only some moments are certain: those from `at` to `until`. */
  held(attempt: string, fence: number, at: number, until: number): void {
    this.#history.write({ type: 'granted', at, attempt, fence, deadline: until })
  }

  refused(attempt: string): void {
    this.#history.write({ type: 'refused', attempt })
  }

  /** Whether the lease can still be trusted, and from then on until when. */
  check(attempt: string, lease: Lease): boolean {
    const now = monotonicMs()
    const remaining = lease.remainingMs
    if (remaining > 0) this.#history.write({ type: 'renewed', attempt, deadline: now + remaining })
    return remaining > 0
  }

  letGo(attempt: string): void {
    this.#history.write({ type: 'release', attempt })
  }

  fail({ code }: LeaseholdError): void {
    this.#failures[code] = (this.#failures[code] ?? 0) + 1
  }

  /** What failed since the last time. */
  take(): { failures: Record<string, number> } {
    const failures = this.#failures
    this.#failures = {}
    return { failures }
  }
}
