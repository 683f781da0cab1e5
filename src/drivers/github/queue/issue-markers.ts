import type { Environment } from '../../../core/time/environment.ts'
import { settledWithin } from '../../../core/time/bounded.ts'
import type { Deadline, Deadlines } from '../api/deadline.ts'
import type { GithubApi } from '../api/github-api.ts'
import type { RateBudget } from '../api/rate-budget.ts'

/** Which markers to set. */
export interface MarkerOptions {
  /** Whether to assign the holder's account to the issue. */
  readonly assign: boolean
  /** The label of a held issue; undefined: none. */
  readonly label: string | undefined
}

const withinMs = 30_000

/**
 * Assignee and label of a held issue, for people to see. They decide nothing: they are set after the grant, failures are
 * ignored, and they are skipped while the rate budget is short.
 */
export class IssueMarkers {
  readonly #api: GithubApi
  readonly #environment: Environment
  readonly #deadlines: Deadlines
  readonly #rateBudget: RateBudget
  readonly #options: MarkerOptions
  /** The last change of each issue: changes of one issue run in order. */
  readonly #underWay = new Map<number, Promise<void>>()
  #closed = false

  constructor(
    api: GithubApi,
    environment: Environment,
    deadlines: Deadlines,
    rateBudget: RateBudget,
    options: MarkerOptions,
  ) {
    this.#api = api
    this.#environment = environment
    this.#deadlines = deadlines
    this.#rateBudget = rateBudget
    this.#options = options
  }

  /** Sets the markers. `evictedBefore` is the account of an evicted holder, whose markers are still there. */
  putUp(issue: number, login: string, evictedBefore: string | undefined): void {
    const { assign, label } = this.#options
    if (this.#rateBudget.isPressed(this.#environment.now())) return
    if (assign && evictedBefore !== undefined && evictedBefore !== login)
      this.#change(issue, (deadline) => this.#api.unassign(issue, evictedBefore, deadline))
    if (label !== undefined) this.#change(issue, (deadline) => this.#api.addLabel(issue, label, deadline))
    if (assign && login !== '') this.#change(issue, (deadline) => this.#api.assign(issue, login, deadline))
  }

  /** Removes the markers. `next` is the account of the next holder, if there is a waiter: its markers stay. */
  takeDown(issue: number, login: string, next: string | undefined): void {
    const { assign, label } = this.#options
    if (assign && login !== '' && next !== login)
      this.#change(issue, (deadline) => this.#api.unassign(issue, login, deadline))
    if (label !== undefined && next === undefined) {
      this.#change(issue, (deadline) => this.#api.removeLabel(issue, label, deadline))
    }
  }

  /** Waits a little for the changes under way, then gives up the rest. */
  async close(withinMilliseconds: number): Promise<void> {
    await settledWithin(this.#environment, withinMilliseconds, Promise.all(this.#underWay.values()))
    this.#closed = true
  }

  #change(issue: number, work: (deadline: Deadline) => Promise<void>): void {
    if (this.#closed) return
    const last = this.#underWay.get(issue)
    const change = (async () => {
      await last
      if (this.#closed) return
      // Ignore failures: the lock does not depend on its markers.
      await this.#deadlines.within(withinMs, work).catch(() => {})
    })()
    this.#underWay.set(issue, change)
    void change.then(() => this.#underWay.get(issue) === change && this.#underWay.delete(issue))
  }
}
