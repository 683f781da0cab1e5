import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Family } from '../../telemetry/exposition.ts'
import type { RejectReason } from '../contract/http-error.ts'

interface CallCount {
  readonly route: string
  readonly status: number
  count: number
  seconds: number
}

interface RequestCount {
  readonly op: Request['op']
  readonly state: ClaimStatus['state']
  count: number
}

/** What the server counts of itself. */
export class ServerMetrics {
  /** Streams are not counted among the calls. */
  callsUnderWay = 0
  streamsUnderWay = 0
  storeUp = true
  readonly #calls = new Map<string, CallCount>()
  readonly #requests = new Map<string, RequestCount>()
  readonly #refused = new Map<RejectReason, number>()

  /** A call has been answered, after so long. */
  callAnswered(route: string, status: number, seconds: number): void {
    const name = `${route} ${status}`
    let entry = this.#calls.get(name)
    if (entry === undefined) this.#calls.set(name, (entry = { route, status, count: 0, seconds: 0 }))
    entry.count += 1
    entry.seconds += seconds
  }

  requestAnswered(op: Request['op'], state: ClaimStatus['state']): void {
    const name = `${op} ${state}`
    let entry = this.#requests.get(name)
    if (entry === undefined) this.#requests.set(name, (entry = { op, state, count: 0 }))
    entry.count += 1
  }

  refused(why: RejectReason): void {
    this.#refused.set(why, (this.#refused.get(why) ?? 0) + 1)
  }

  families(): readonly Family[] {
    const calls = [...this.#calls.values()]
    const labelsOf = ({ route, status }: CallCount) => ({ route, status: String(status) })
    return [
      {
        name: 'leasehold_server_calls_total',
        help: 'HTTP calls answered.',
        type: 'counter',
        samples: calls.map((each) => ({ labels: labelsOf(each), value: each.count })),
      },
      {
        name: 'leasehold_server_call_seconds_total',
        help: 'Seconds that HTTP calls took, up to the head of their answer.',
        type: 'counter',
        samples: calls.map((each) => ({ labels: labelsOf(each), value: each.seconds })),
      },
      {
        name: 'leasehold_server_requests_total',
        help: 'Requests to the store, by how the claim stood afterwards.',
        type: 'counter',
        samples: [...this.#requests.values()].map(({ op, state, count }) => ({ labels: { op, state }, value: count })),
      },
      {
        name: 'leasehold_server_refused_calls_total',
        help: 'HTTP calls refused, by why.',
        type: 'counter',
        samples: [...this.#refused].map(([why, value]) => ({ labels: { why }, value })),
      },
      gauge('leasehold_server_calls_under_way', 'HTTP calls being answered.', this.callsUnderWay),
      gauge('leasehold_server_streams_under_way', 'Event streams being written.', this.streamsUnderWay),
      gauge('leasehold_server_store_up', 'Whether the store answered when last asked.', this.storeUp ? 1 : 0),
    ]
  }
}

function gauge(name: string, help: string, value: number): Family {
  return { name, help, type: 'gauge', samples: [{ labels: {}, value }] }
}
