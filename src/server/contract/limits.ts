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
   * JSON values in one body: each costs about the same, however short it is.
   *
   * @default 100_000
   */
  readonly partsPerCallMax: number
  /**
   * Calls carried out at once, streams and bodies that are still arriving not counted.
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
   * Connections at once from one address, unless it is a trusted proxy. Of IPv6, a network of 64 bits is one address.
   *
   * @default 5000
   */
  readonly connectionsPerAddressMax: number
  /**
   * Calls at once on one connection. Whoever sends more before it has read the answers is cut off.
   *
   * @default 16
   */
  readonly callsPerConnectionMax: number
  /**
   * Calls of one token at once, those whose body is still arriving too.
   *
   * @default 500
   */
  readonly callsPerTokenMax: number
  /**
   * Event streams of one token at once.
   *
   * @default 5000
   */
  readonly streamsPerTokenMax: number
  /**
   * Bytes in memory of bodies that are carried out and of answers that are not read yet, of all connections. If there are more,
   * connections of the token, or the address, with the most of them are cut off.
   *
   * @default 67_108_864
   */
  readonly heldBytesMax: number
  /**
   * The same of one connection with several calls.
   *
   * @default 8_388_608
   */
  readonly heldBytesPerConnectionMax: number
  /**
   * Bytes of a listing; a page that would be longer has fewer keys, and then fewer claims of a key.
   *
   * @default 4_194_304
   */
  readonly listBytesMax: number
  /**
   * Claims that callers have by this server, held and waiting.
   *
   * @default 200_000
   */
  readonly claimsInAllMax: number
  /**
   * Claims of one token, held and waiting.
   *
   * @default 50_000
   */
  readonly claimsPerTokenMax: number
  /**
   * Waiting claims of one token: fewer than may wait for one key, so that no token takes all places of a queue.
   *
   * @default 5000
   */
  readonly waitersPerTokenMax: number
  /**
   * Waiting claims for one key.
   *
   * @default 10_000
   */
  readonly waitersPerKeyMax: number
  /**
   * Bytes that all claims take in memory, with their metadata, about.
   *
   * @default 134_217_728
   */
  readonly claimBytesMax: number
  /**
   * The same of one token.
   *
   * @default 33_554_432
   */
  readonly claimBytesPerTokenMax: number
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
   * Calls that wait for a lock at once. They do not count among the calls under way.
   *
   * @default 10_000
   */
  readonly waitsMax: number
  /**
   * The same of one token, those whose body is still arriving too.
   *
   * @default 5000
   */
  readonly waitsPerTokenMax: number
  /**
   * How long a call may wait for a lock.
   *
   * @default 60_000
   */
  readonly waitMaxMs: number
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
  partsPerCallMax: 100_000,
  callsMax: 1000,
  streamsMax: 10_000,
  connectionsMax: 20_000,
  connectionsPerAddressMax: 5000,
  callsPerConnectionMax: 16,
  callsPerTokenMax: 500,
  streamsPerTokenMax: 5000,
  heldBytesMax: 67_108_864,
  heldBytesPerConnectionMax: 8_388_608,
  listBytesMax: 4_194_304,
  claimsInAllMax: 200_000,
  claimsPerTokenMax: 50_000,
  waitersPerTokenMax: 5000,
  waitersPerKeyMax: 10_000,
  claimBytesMax: 134_217_728,
  claimBytesPerTokenMax: 33_554_432,
  claimsMax: 100_000,
  urlLengthMax: 8192,
  headersWithinMs: 10_000,
  bodyWithinMs: 10_000,
  readWithinMs: 30_000,
  waitsMax: 10_000,
  waitsPerTokenMax: 5000,
  waitMaxMs: 60_000,
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
