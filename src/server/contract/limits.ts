import { LeaseholdError } from '../../core/errors.ts'
import { checkOptions, withDefaults } from '../../core/contract/option-names.ts'

/** The most that a server takes on, per caller and in total. */
export interface ServerLimits {
  /**
   * Bytes of a POST's body.
   *
   * @default 1_048_576
   */
  readonly bodyBytesMax: number
  /**
   * Requests of one call.
   *
   * @default 1000
   */
  readonly requestsPerCallMax: number
  /**
   * Calls under way at once, streams not counted.
   *
   * @default 1000
   */
  readonly callsMax: number
  /**
   * Event streams at once.
   *
   * @default 10_000
   */
  readonly streamsMax: number
  /**
   * Connections at once.
   *
   * @default 20_000
   */
  readonly connectionsMax: number
  /**
   * Claims whose session is remembered, for notifications; the oldest are forgotten first.
   *
   * @default 100_000
   */
  readonly claimsMax: number
  /**
   * Characters of a URL.
   *
   * @default 8192
   */
  readonly urlLengthMax: number
  /**
   * How long the head of a request may take to arrive.
   *
   * @default 10_000
   */
  readonly headersWithinMs: number
  /**
   * How long its body may take.
   *
   * @default 10_000
   */
  readonly bodyWithinMs: number
  /**
   * How long a caller may leave off reading its answer.
   *
   * @default 30_000
   */
  readonly readWithinMs: number
  /**
   * How long calls under way may take to finish when the server closes.
   *
   * @default 10_000
   */
  readonly drainWithinMs: number
}

const defaults: ServerLimits = {
  bodyBytesMax: 1_048_576,
  requestsPerCallMax: 1000,
  callsMax: 1000,
  streamsMax: 10_000,
  connectionsMax: 20_000,
  claimsMax: 100_000,
  urlLengthMax: 8192,
  headersWithinMs: 10_000,
  bodyWithinMs: 10_000,
  readWithinMs: 30_000,
  drainWithinMs: 10_000,
}

/** The limits with defaults filled in. @internal */
export function resolveLimits(given: Partial<ServerLimits> = {}): ServerLimits {
  checkOptions(given, defaults, 'limits')
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue
    // Longer than that is no limit, and timers would fire at once.
    if (Number.isInteger(value) && value >= 1 && value <= 2_147_483_647) continue
    throw new LeaseholdError('INVALID', `The limit ${name} is ${String(value)}. Use a whole number from 1 on.`)
  }
  return withDefaults<Partial<ServerLimits>>(defaults, given) as ServerLimits
}
