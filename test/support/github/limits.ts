/** What GitHub allows an account: requests an hour, points a minute, and things created a minute and an hour. */
export interface Allowance {
  readonly requestsPerHour: number
  readonly pointsPerMinute: number
  readonly createdPerMinute: number
  readonly createdPerHour: number
}

export const githubsAllowance: Allowance = {
  requestsPerHour: 5000,
  pointsPerMinute: 900,
  createdPerMinute: 80,
  createdPerHour: 500,
}

export type Exceeded = 'primary' | 'secondary'

const minuteMs = 60_000
const hourMs = 3_600_000

/** Counts the requests of one account. */
export class Meter {
  allowance: Allowance
  /** Requests that counted, in all. */
  requests = 0
  /** The most of each that any minute or hour has seen. */
  readonly most = { pointsPerMinute: 0, createdPerMinute: 0, createdPerHour: 0 }
  exceeded = 0
  #used = 0
  #windowEnd = -Infinity
  #points: { readonly at: number; readonly points: number }[] = []
  #pointsSum = 0
  #created: number[] = []

  constructor(allowance: Allowance) {
    this.allowance = allowance
  }

  /** Counts a request, or says which limit forbids it. */
  take(now: number, kind: 'read' | 'write' | 'create'): Exceeded | undefined {
    if (now >= this.#windowEnd) {
      this.#used = 0
      this.#windowEnd = now + hourMs
    }
    // Oldest first: entries that have left their window are dropped, and the loop ends at the first that has not.
    while ((this.#points[0]?.at ?? now) <= now - minuteMs) this.#pointsSum -= this.#points.shift()?.points ?? 0
    while ((this.#created[0] ?? now) <= now - hourMs) this.#created.shift()
    const points = this.#pointsSum + (kind === 'read' ? 1 : 5)
    const createdInMinute = kind === 'create' ? this.#created.filter((at) => at > now - minuteMs).length : 0
    const { requestsPerHour, pointsPerMinute, createdPerMinute, createdPerHour } = this.allowance
    const exceeded = this.#used >= requestsPerHour
    const tooFast =
      points > pointsPerMinute ||
      (kind === 'create' && (createdInMinute >= createdPerMinute || this.#created.length >= createdPerHour))
    if (exceeded || tooFast) {
      this.exceeded += 1
      return exceeded ? 'primary' : 'secondary'
    }
    this.requests += 1
    this.#used += 1
    this.#points.push({ at: now, points: kind === 'read' ? 1 : 5 })
    this.#pointsSum = points
    if (kind === 'create') this.#created.push(now)
    this.most.pointsPerMinute = Math.max(this.most.pointsPerMinute, points)
    this.most.createdPerHour = Math.max(this.most.createdPerHour, this.#created.length)
    if (kind === 'create') this.most.createdPerMinute = Math.max(this.most.createdPerMinute, createdInMinute + 1)
    return undefined
  }

  /** An answer "not modified" is free. */
  giveBack(): void {
    this.requests -= 1
    this.#used -= 1
  }

  headers(): Record<string, string> {
    const { requestsPerHour } = this.allowance
    return {
      'x-ratelimit-limit': String(requestsPerHour),
      'x-ratelimit-remaining': String(Math.max(0, requestsPerHour - this.#used)),
      'x-ratelimit-reset': String(Math.floor(this.#windowEnd / 1000)),
      'x-ratelimit-used': String(this.#used),
      'x-ratelimit-resource': 'core',
    }
  }
}
