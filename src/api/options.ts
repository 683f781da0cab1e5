import { pausesMs, retryPresets, type Backoff } from '../core/time/backoff.ts'
import { durationMs, positiveMs, type Duration } from '../core/time/duration.ts'
import type { EvictRule, Supports } from '../core/contract/driver.ts'
import { LeaseholdError, unsupported } from '../core/errors.ts'
import { durationMaxOf } from '../core/contract/limits.ts'
import { requestBounds, textFault } from '../core/contract/bounds.ts'
import { checkOptions, type OptionNames, withDefaults } from '../core/contract/option-names.ts'
import { checkLongest, checkTtl, checkUnnamedTtl } from './lease/lease-limits.ts'
import type { Origin } from './owners/origin.ts'

/** Named pairs of ttl and heartbeat, in milliseconds. */
export const leasePresets = {
  aggressive: { ttlMs: 2000, heartbeatMs: 500 },
  fast: { ttlMs: 5000, heartbeatMs: 1000 },
  short: { ttlMs: 10_000, heartbeatMs: 3000 },
  standard: { ttlMs: 30_000, heartbeatMs: 10_000 },
  conservative: { ttlMs: 30_000, heartbeatMs: 5000 },
  long: { ttlMs: 60_000, heartbeatMs: 20_000 },
  batch: { ttlMs: 300_000, heartbeatMs: 100_000 },
  github: { ttlMs: 300_000, heartbeatMs: 30_000 },
} as const

/** The name of a pair of ttl and heartbeat: see `leasePresets`. */
export type LeasePreset = keyof typeof leasePresets

/** What to do when somebody else holds the lock. */
export type ConflictStrategy = 'wait' | 'fail' | 'steal-stale' | 'preempt' | 'reclaim' | 'force'

/** How often to try, and with which pauses in between. */
export interface RetryOptions {
  /**
   * Attempts in all, including the first.
   *
   * @default Infinity
   */
  readonly attempts?: number | undefined
  /**
   * The first pause.
   *
   * @default '100ms'
   */
  readonly min?: Duration | undefined
  /**
   * The longest pause.
   *
   * @default '5s'
   */
  readonly max?: Duration | undefined
  /**
   * By which factor each pause is longer than the previous one.
   *
   * @default 2
   */
  readonly factor?: number | undefined
  /**
   * Which share of a pause is random, 0 to 1.
   *
   * @default 0.2
   */
  readonly jitter?: number | undefined
}

/** The options of one acquisition. */
export interface AcquireOptions {
  /**
   * How long the lease lasts unless it is renewed.
   *
   * @default '30s', or the store's own
   */
  readonly ttl?: Duration | undefined
  /**
   * A named ttl and heartbeat. `ttl` and `heartbeat` override its parts.
   *
   * @default 'standard', or the store's own
   */
  readonly lease?: LeasePreset | undefined
  /**
   * How long to wait for the lock.
   *
   * @default Infinity for `acquire`, 0 for `tryAcquire`
   */
  readonly wait?: Duration | undefined
  /** Gives up waiting when the signal aborts. */
  readonly signal?: AbortSignal | undefined
  /**
   * How often to renew. `auto`: every third of the ttl. `manual`: only when `renew` is called. A duration: at most half
   * the ttl.
   *
   * @default 'auto'
   */
  readonly heartbeat?: 'auto' | 'manual' | Duration | undefined
  /**
   * Higher goes first; low, normal, high are -10, 0, 10.
   *
   * @default 'normal'
   */
  readonly priority?: number | 'low' | 'normal' | 'high' | undefined
  /**
   * The longest the lock may be held, renewed or not.
   *
   * @default no limit
   */
  readonly maxHold?: Duration | undefined
  /**
   * How long others must still wait after a lease ended without a release.
   *
   * @default 0
   */
  readonly grace?: Duration | undefined
  /**
   * Renew only while `lease.progress()` is called at least this often.
   *
   * @default renew in any case
   */
  readonly progress?: Duration | undefined
  /**
   * What to do when somebody else holds the lock.
   *
   * @default 'wait'
   */
  readonly onConflict?: ConflictStrategy | undefined
  /**
   * With `steal-stale`: how long the holder must have been silent.
   *
   * @default two and a half heartbeats, or the store's own
   */
  readonly staleAfter?: Duration | undefined
  /**
   * How often to try, and with which pauses, if the store cannot queue or cannot be reached. In a queue a claim waits no
   * longer than all pauses together: `none` does not wait, `standard` waits about 21 s. Then TIMEOUT, unless `wait` ends
   * first.
   *
   * @default as often as `wait` allows
   */
  readonly retry?: keyof typeof retryPresets | RetryOptions | undefined
  /**
   * Lets an owner acquire a lock that it already holds: counted, with the same fence.
   *
   * @default false
   */
  readonly reentrant?: boolean | undefined
  /** For operators: stored with the claim. JSON. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /**
   * The owner of the claim, by a name of your own: a part of your program that does one thing at a time.
   *
   * @default the `run` body that acquires the lock, if any
   */
  readonly owner?: string | undefined
}

/** How long to wait, and when to give up. */
export type WaitOptions = Pick<AcquireOptions, 'wait' | 'signal'>

/** How to wait and when to give up. How long to wait is said by each call. @internal */
export interface WaitPolicy {
  readonly signal: AbortSignal | undefined
  /** Absent: try for as long as the call may wait; of a store that fails, ten times. */
  readonly retry: Backoff | undefined
  /** How long to stay in a queue at most. Absent: for as long as the call may wait. */
  readonly queueMs?: number | undefined
  /** The pauses between polls of a store whose requests are expensive. */
  readonly polling?: Backoff | undefined
}

/** The options of one acquisition, checked and in numbers. @internal */
export interface AcquireTerms {
  readonly ttlMs: number
  /** Infinity: only `renew` renews. */
  readonly heartbeatMs: number
  readonly waitMs: number | undefined
  readonly waitPolicy: WaitPolicy
  readonly priority: number
  readonly maxHoldMs: number | undefined
  /** Of a conversion: when the `maxHold` of the original lease is over, by the client's clock. */
  readonly holdUntil?: number | undefined
  readonly graceMs: number
  readonly progressMs: number | undefined
  /** Refuse rather than queue. */
  readonly failOnConflict: boolean
  readonly evict: EvictRule | undefined
  readonly staleMs: number | undefined
  readonly reentrant: boolean
  readonly metadata: Readonly<Record<string, unknown>> | undefined
  /** The owner of the claim, as `core/contract/owner-name.ts` writes it. */
  readonly owner: string | undefined
  /** Where an owner acquired: for the error it gets if it would wait for itself. */
  readonly origin?: Origin
  /** If the claim is evicted before its owner learns of the grant, it is not made again. */
  readonly endsWhenEvicted?: boolean
  /** The claim outlives its process. */
  readonly detached?: boolean
}

const priorities = { low: -10, normal: 0, high: 10 } as const
const evictRules: Readonly<Record<ConflictStrategy, EvictRule | undefined>> = {
  wait: undefined,
  fail: undefined,
  'steal-stale': 'stale',
  preempt: 'lower-priority',
  reclaim: 'same-runner',
  force: 'all',
}
const acquireNames: OptionNames<AcquireOptions> = {
  ttl: true,
  lease: true,
  wait: true,
  signal: true,
  heartbeat: true,
  priority: true,
  maxHold: true,
  grace: true,
  progress: true,
  onConflict: true,
  staleAfter: true,
  retry: true,
  reentrant: true,
  metadata: true,
  owner: true,
}
const waitNames: OptionNames<WaitOptions> = { wait: true, signal: true }
const retryNames: OptionNames<RetryOptions> = { attempts: true, min: true, max: true, factor: true, jitter: true }
const noTimeout = { timeout: `Use 'wait' for how long to wait, 'ttl' for the lease.` }
const attemptsHint = `Use 'attempts', which counts the first one too.`
const noRetries = { maxAttempts: attemptsHint, retries: attemptsHint, maxRetries: attemptsHint, limit: attemptsHint }

/** Hints for calls that were given an acquire option: it belongs in `defaults`. @internal */
export const defaultsHints: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(acquireNames).map((name) => [name, `Set it for all locks with defaults: { ${name}: … }.`]),
)

/** Refuses options that no acquisition has. @internal */
export function checkAcquireOptions(options: AcquireOptions, whose: string): void {
  checkOptions(options, acquireNames, whose, noTimeout)
}

/** The options of one acquisition, with defaults for those that are absent. Refuses unknown names. @internal */
export function acquireOptions(defaults: AcquireOptions, options: AcquireOptions | undefined): AcquireOptions {
  if (options === undefined) return defaults
  checkAcquireOptions(options, 'acquire')
  return withDefaults(defaults, options)
}

/** Refuses options that do not say how to wait. @internal */
export function checkWaitOptions(options: WaitOptions, whose: string): void {
  checkOptions(options, waitNames, whose, noTimeout)
  checkSignal(options.signal)
}

/** Checks the method that is used, not the class: a signal may come from a polyfill or another realm. */
function checkSignal(signal: unknown): void {
  if (signal === undefined || typeof (signal as AbortSignal | null)?.addEventListener === 'function') return
  throw invalid('signal is no AbortSignal. Pass the signal of an AbortController.')
}

/** Checks options against each other and against what the store can do. @internal */
export function resolveOptions(options: AcquireOptions, supports: Supports, allowForce: boolean): AcquireTerms {
  checkAcquireOptions(options, 'acquire')
  checkSignal(options.signal)
  const { ttlMs, heartbeatMs } = leaseTimes(options, supports)
  const strategy = options.onConflict ?? 'wait'
  if (!Object.hasOwn(evictRules, strategy)) {
    throw invalid(`onConflict is ${JSON.stringify(strategy)}. Use one of ${Object.keys(evictRules).join(', ')}.`)
  }
  const evict = evictRules[strategy]
  if (strategy === 'force' && !allowForce) {
    throw invalid(
      `onConflict: 'force' takes locks from live holders. Pass allowForce: true to connect if that is meant.`,
    )
  }
  const maxHoldMs = checkLongest(optionalMs(options.maxHold, 'maxHold'), 'maxHold', supports)
  const graceMs = options.grace === undefined ? 0 : durationMs(options.grace, 'grace')
  checkLongest(graceMs, 'grace', supports)
  checkLongest(optionalMs(options.staleAfter, 'staleAfter'), 'staleAfter', supports)
  const priority = resolvePriority(options.priority)
  if (evict !== undefined && !supports.evict.includes(evict)) throw unsupported(`onConflict: '${strategy}'`)
  if (maxHoldMs !== undefined && !supports.maxHold) throw unsupported('maxHold')
  if (graceMs > 0 && !supports.grace) throw unsupported('grace')
  if (priority !== 0 && !supports.priority) throw unsupported('priority')
  checkTtl(ttlMs, graceMs, supports)
  const ownerFault = options.owner === undefined ? undefined : textFault(options.owner, requestBounds.ownerBytesMax)
  if (ownerFault !== undefined) throw invalid(`owner ${ownerFault}.`)
  const retry = options.retry === undefined ? undefined : resolveRetry(options.retry)
  return {
    ttlMs,
    heartbeatMs,
    waitMs: options.wait === undefined ? undefined : waitMsOf(options.wait),
    waitPolicy: {
      signal: options.signal,
      retry,
      queueMs: retry === undefined ? undefined : pausesMs(retry),
      polling: supports.pollingDefault,
    },
    priority,
    maxHoldMs,
    graceMs,
    progressMs: options.progress === undefined ? undefined : positiveMs(options.progress, 'progress'),
    failOnConflict: strategy === 'fail',
    evict,
    staleMs: evict === 'stale' ? staleMs(options, supports, ttlMs, heartbeatMs) : undefined,
    reentrant: options.reentrant ?? false,
    metadata: options.metadata,
    owner: options.owner,
  }
}

function leaseTimes(
  options: AcquireOptions,
  supports: Supports,
): { readonly ttlMs: number; readonly heartbeatMs: number } {
  if (options.lease !== undefined && !Object.hasOwn(leasePresets, options.lease)) {
    throw invalid(`lease is ${JSON.stringify(options.lease)}. Use one of ${Object.keys(leasePresets).join(', ')}.`)
  }
  const preset = options.lease === undefined ? undefined : leasePresets[options.lease]
  const defaultTtlMs = preset?.ttlMs ?? supports.ttlDefaultMs ?? leasePresets.standard.ttlMs
  const ttlMs = options.ttl === undefined ? defaultTtlMs : positiveMs(options.ttl, 'ttl')
  if (options.ttl === undefined) checkUnnamedTtl(ttlMs, supports, options.lease)
  const { heartbeat = 'auto' } = options
  if (heartbeat === 'manual') return { ttlMs, heartbeatMs: Infinity }
  if (heartbeat === 'auto') {
    const defaultHeartbeatMs = preset?.heartbeatMs ?? supports.heartbeatDefaultMs
    // The default heartbeat goes with the default ttl, also if the caller names that ttl: a resumed lease does.
    const isOfTtl = ttlMs === defaultTtlMs && defaultHeartbeatMs !== undefined && defaultHeartbeatMs <= ttlMs / 2
    return { ttlMs, heartbeatMs: isOfTtl ? defaultHeartbeatMs : ttlMs / 3 }
  }
  return { ttlMs, heartbeatMs: checkHeartbeat(positiveMs(heartbeat, 'heartbeat'), ttlMs) }
}

function optionalMs(duration: Duration | undefined, option: string): number | undefined {
  return duration === undefined ? undefined : positiveMs(duration, option)
}

/** Milliseconds to wait. Infinity is allowed: it is the default of `acquire`. @internal */
export function waitMsOf(wait: Duration): number {
  return wait === Infinity ? Infinity : durationMs(wait, 'wait')
}

/** Refuses a heartbeat that leaves no room for one failed renewal. @internal */
export function checkHeartbeat(heartbeatMs: number, ttlMs: number): number {
  if (heartbeatMs <= ttlMs / 2) return heartbeatMs
  throw invalid(
    `heartbeat is ${Math.round(heartbeatMs)} ms, over half the ttl of ${ttlMs} ms: one failed renewal would lose the lock.`,
  )
}

function resolvePriority(priority: AcquireOptions['priority']): number {
  if (priority === undefined) return 0
  const number = typeof priority === 'string' ? priorities[priority] : priority
  if (Number.isInteger(number) && Math.abs(number) <= 1000) return number
  throw invalid(`priority is ${JSON.stringify(priority)}. Use low, normal, high or a whole number from -1000 to 1000.`)
}

function staleMs(options: AcquireOptions, supports: Supports, ttlMs: number, heartbeatMs: number): number {
  if (options.staleAfter !== undefined) return positiveMs(options.staleAfter, 'staleAfter')
  if (supports.staleDefaultMs !== undefined) return supports.staleDefaultMs
  return Math.min(Math.ceil(2.5 * Math.min(heartbeatMs, ttlMs / 3)), durationMaxOf(supports))
}

function resolveRetry(retry: NonNullable<AcquireOptions['retry']>): Backoff {
  if (typeof retry === 'string') {
    if (Object.hasOwn(retryPresets, retry)) return retryPresets[retry]
    throw invalid(`retry is ${JSON.stringify(retry)}. Use none, standard, aggressive or an object.`)
  }
  checkOptions(retry, retryNames, 'retry', noRetries)
  const { standard } = retryPresets
  const backoff: Backoff = {
    attempts: retry.attempts ?? Infinity,
    minMs: retry.min === undefined ? standard.minMs : positiveMs(retry.min, 'retry.min'),
    maxMs: retry.max === undefined ? standard.maxMs : positiveMs(retry.max, 'retry.max'),
    factor: retry.factor ?? standard.factor,
    jitter: retry.jitter ?? standard.jitter,
  }
  const { attempts, minMs, maxMs, factor, jitter } = backoff
  if (!(attempts === Infinity || (Number.isSafeInteger(attempts) && attempts >= 1))) {
    throw invalid(`retry.attempts is ${String(attempts)}. Use a whole number from 1 on: the first attempt counts.`)
  }
  if (minMs > maxMs) throw invalid(`retry.min is ${minMs} ms, more than retry.max, ${maxMs} ms.`)
  if (!(factor >= 1 && factor <= 100)) throw invalid(`retry.factor is ${factor}. Use a number from 1 to 100.`)
  if (!(jitter >= 0 && jitter <= 1)) throw invalid(`retry.jitter is ${jitter}. Use a number from 0 to 1.`)
  return backoff
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
