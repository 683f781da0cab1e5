import { isIPv6 } from 'node:net'
import type { Environment } from '../../core/time/environment.ts'
import { tooMuch } from '../contract/http-error.ts'
import { badSetting, checkFields } from './grants.ts'

/** How much of something is allowed: a token bucket. */
export interface RateOptions {
  /** How many requests a second, in the long run. */
  readonly perSecond: number
  /**
   * How many at once, after a pause.
   *
   * @default ten seconds' worth
   */
  readonly burst?: number | undefined
}

/** The rate limits of a server. Absent: none. */
export interface RateLimitOptions {
  /** Of each token that has no rate of its own. A call counts as many times as it has requests, and once at least. */
  readonly perToken?: RateOptions | undefined
  /** Of each address, in calls, signed in or not. Of IPv6, a network of 64 bits is one address. */
  readonly perAddress?: RateOptions | undefined
}

const rateFields: Readonly<Record<keyof RateOptions, true>> = { perSecond: true, burst: true }

/** So many bytes of a body, or of a listing, cost as much as a request: one that claims has some 400. @internal */
export const bytesPerRequest = 8192

/** Checks a rate from outside. @internal */
export function checkRate(given: unknown, subject: string): RateOptions {
  const { perSecond, burst } = checkFields(given, rateFields, subject)
  const isUsable = (value: unknown): boolean => typeof value === 'number' && value > 0 && value <= 1e9
  if (isUsable(perSecond) && (burst === undefined || (isUsable(burst) && (burst as number) >= 1))) {
    return given as RateOptions
  }
  throw badSetting(`${subject} is { perSecond, burst }: numbers above 0, and a burst of 1 at least.`)
}

/** Buckets kept at once: whoever calls from more addresses than that is not slowed down by us, but by its network. */
const bucketsMax = 50_000

/** How full the buckets are, by name. @internal */
export class Buckets {
  readonly #now: () => number
  /** The oldest use first. */
  readonly #levels = new Map<string, { level: number; at: number }>()

  constructor(now: () => number) {
    this.#now = now
  }

  get size(): number {
    return this.#levels.size
  }

  /**
   * Takes from a bucket that is not empty, as much as is wanted: a batch larger than the burst leaves a debt. Gives 0, or
   * for how long the bucket is empty.
   */
  take(name: string, { perSecond, burst = perSecond * 10 }: RateOptions, wanted: number): number {
    const now = this.#now()
    const full = Math.max(1, burst)
    const known = this.#levels.get(name)
    const level = known === undefined ? full : Math.min(full, known.level + ((now - known.at) / 1000) * perSecond)
    const isAllowed = level >= 1
    this.#levels.delete(name)
    this.#levels.set(name, { level: isAllowed ? level - wanted : level, at: now })
    if (this.#levels.size > bucketsMax) this.#forgetOldest()
    return isAllowed ? 0 : Math.ceil(((1 - level) / perSecond) * 1000)
  }

  /** Whether nothing can be taken now. */
  isEmpty(name: string, { perSecond }: RateOptions): boolean {
    const known = this.#levels.get(name)
    return known !== undefined && known.level + ((this.#now() - known.at) / 1000) * perSecond < 1
  }

  /** Takes more from a bucket, even if that leaves a debt. */
  charge(name: string, amount: number): void {
    const known = this.#levels.get(name)
    if (known !== undefined) known.level -= amount
  }

  #forgetOldest(): void {
    for (const name of this.#levels.keys()) return void this.#levels.delete(name)
  }
}

/** What the limits have refused, for the metrics. @internal */
export interface RateRefusals {
  rateLimited(by: 'token' | 'address', token?: string): void
}

/** Holds callers to their rates. @internal */
export class RateLimits {
  readonly #limits: RateLimitOptions
  readonly #refusals: RateRefusals
  readonly #tokens: Buckets
  readonly #addresses: Buckets

  constructor(limits: RateLimitOptions, environment: Pick<Environment, 'now'>, refusals: RateRefusals) {
    checkFields(limits, { perToken: true, perAddress: true }, 'rateLimits')
    for (const [name, rate] of Object.entries(limits)) if (rate !== undefined) checkRate(rate, `rateLimits.${name}`)
    this.#limits = limits
    this.#refusals = refusals
    this.#tokens = new Buckets(() => environment.now())
    this.#addresses = new Buckets(() => environment.now())
  }

  /** Counts a call from an address. Throws the 429. */
  checkAddress(address: string): void {
    const { perAddress } = this.#limits
    if (perAddress === undefined) return
    const waitMs = this.#addresses.take(networkOf(address), perAddress, 1)
    if (waitMs === 0) return
    this.#refusals.rateLimited('address')
    throw tooMuch(`More than ${perAddress.perSecond} calls a second came from this address.`, waitMs, 'rate')
  }

  /** Counts a call by a token, whose own rate is `own`. Throws the 429. */
  checkToken(name: string, own: RateOptions | undefined): void {
    const rate = own ?? this.#limits.perToken
    if (rate === undefined) return
    const waitMs = this.#tokens.take(name, rate, 1)
    if (waitMs === 0) return
    this.#refusals.rateLimited('token', name)
    const message = `The token ${JSON.stringify(name)} sent more than ${rate.perSecond} requests a second.`
    throw tooMuch(message, waitMs, 'rate')
  }

  /** Counts more requests of a call that has been let in. */
  chargeToken(name: string, requests: number): void {
    this.#tokens.charge(name, requests)
  }
}

/**
 * The network that counts as one address: a customer of a network provider has 64 bits of IPv6 addresses at least, and could use a
 * new one for every call. @internal
 */
export function networkOf(given: string): string {
  // An IPv4 address that came in on an IPv6 socket.
  const address = given.replace(/^::ffff:(?=\d+\.)/i, '')
  if (!isIPv6(address)) return address
  const [head = '', tail = ''] = address.split('%', 1)[0]?.split('::') ?? []
  const before = head === '' ? [] : head.split(':')
  const after = tail === '' ? [] : tail.split(':')
  const isShort = address.includes('::')
  const groups = isShort
    ? [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after]
    : before
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}
