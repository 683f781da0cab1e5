/** What a Leasehold server replies, described once: clients read by it, and the OpenAPI document is written from it. */
import { requestBounds, yearMs } from '../contract/bounds.ts'
import type {
  ClaimStatus,
  EvictionCause,
  EvictRule,
  KeyPage,
  ListedClaim,
  ListedKey,
  Range,
  Runner,
  Succession,
  Supports,
} from '../contract/driver.ts'
import { absentReasons, uncleanEndings } from '../contract/status-check.ts'
import { LeaseholdError, plainMessageOf, type ErrorCode } from '../errors.ts'
import {
  amount,
  anyText,
  choice,
  flag,
  list,
  metadata,
  nullable,
  number,
  object,
  optional,
  string,
  understood,
  variants,
  integer,
  type Schema,
} from './schema.ts'

/** Names the client that wants to be notified of its claims: 128 random bits that it made, and keeps to itself. */
export const sessionHeader = 'Leasehold-Session'

/** An id the caller knows, percent-encoded. In a header, as URLs are written to logs and an id is a secret. */
export const knownHeader = 'Leasehold-Known'

/** The id of a lease, as callers without our client send it. In a header, for the same reason. */
export const leaseHeader = 'Leasehold-Id'

/** A digest of what the server says of its store and its limits, in every reply: another digest says that they changed. */
export const storeHeader = 'Leasehold-Store'

/** What clients and servers must agree on. A change that an older client would misread makes it grow. */
export const protocolVersion = 1

const { positive, keyBytesMax, runnerTextBytesMax, ownerBytesMax, holdsMax } = requestBounds

/** A range of bytes. */
export const range: Schema<Range> = object<Range>({ start: integer(), end: integer(positive) })
/** How a claim shares its key. */
export const mode = choice('exclusive', 'shared')
const runnerText = string(runnerTextBytesMax)
/** Who owns a claim. */
export const runner: Schema<Runner> = object<Runner>({
  id: runnerText,
  incarnation: runnerText,
  host: string(runnerTextBytesMax, 0),
  pid: integer(),
  client: runnerText,
  owner: optional(string(ownerBytesMax, 0)),
  holds: optional(list(string(keyBytesMax), holdsMax)),
  metadata: optional(metadata),
})

// ---- errors

/** An error as it travels between a Leasehold server and its clients. */
export interface WireError {
  readonly code: ErrorCode
  readonly message: string
  readonly reason?: string | undefined
  readonly retryAfterMs?: number | undefined
}

/** What can go wrong. */
export const wireErrorCode: Schema<ErrorCode> = choice<ErrorCode>(
  'TIMEOUT',
  'ABORTED',
  'HELD',
  'LOST',
  'DEADLOCK',
  'UNAVAILABLE',
  'NOT_HELD',
  'SCOPE_MISMATCH',
  'UNSUPPORTED',
  'INVALID',
  'CLOSED',
)

/** The inside of every refusal. */
export const wireError: Schema<WireError> = object<WireError>({
  code: wireErrorCode,
  message: anyText,
  reason: optional(anyText),
  retryAfterMs: optional(amount),
})

/** What of an error may leave the process. Only what the schema describes: a client refuses a whole reply for one wrong field. */
export function toWireError(error: LeaseholdError): WireError {
  const { code, reason, retryAfterMs } = error
  return {
    code,
    message: plainMessageOf(error),
    reason: understood(anyText, reason),
    retryAfterMs: understood(amount, retryAfterMs),
  }
}

/** The error that came over the wire; undefined if it is none. */
export function fromWireError(value: unknown): LeaseholdError | undefined {
  const error = understood(wireError, value)
  if (error === undefined) return undefined
  const { code, message, reason, retryAfterMs } = error
  return new LeaseholdError(code, message, {
    ...(reason !== undefined && { reason }),
    ...(retryAfterMs !== undefined && retryAfterMs <= yearMs && { retryAfterMs }),
  })
}

// ---- statuses

/** A status as it travels between a Leasehold server and its clients. */
export type WireStatus =
  | Exclude<ClaimStatus, { state: 'unknown' }>
  | { readonly state: 'unknown'; readonly error: WireError }

/** What evicted a holder. A newer server may know causes that this client does not. */
export const evictionCause = anyText as Schema<EvictionCause>

/** How a claim stands. */
export const wireStatus: Schema<WireStatus> = variants<'state', WireStatus>('state', {
  held: {
    fence: integer(positive),
    ttlMs: amount,
    leaving: optional(anyText),
    after: optional(
      object<Succession>({ how: choice(...uncleanEndings), cause: optional(evictionCause), fence: integer(), runner }),
    ),
  },
  waiting: { ahead: integer(), ttlMs: amount, againMs: amount },
  absent: {
    reason: choice(...absentReasons),
    detail: optional(anyText),
  },
  unknown: { error: wireError },
})

/** The reply of `POST /v1/requests`. */
export const statusesReply = object<{ readonly statuses: readonly WireStatus[] }>({ statuses: list(wireStatus) })

/** The status for the wire. `describe` turns an error that is not a LeaseholdError into one. */
export function toWireStatus(status: ClaimStatus, describe: (error: unknown) => LeaseholdError): WireStatus {
  if (status.state !== 'unknown') return status
  const { error } = status
  return { state: 'unknown', error: toWireError(error instanceof LeaseholdError ? error : describe(error)) }
}

/** The status that came over the wire; undefined if it is none. */
export function fromWireStatus(value: unknown): ClaimStatus | undefined {
  const status = understood(wireStatus, value)
  return status && claimStatusOf(status)
}

/** The statuses of a reply, one for each request; undefined if they are not. */
export function statusesIn(value: unknown, count: number): readonly ClaimStatus[] | undefined {
  const statuses = understood(statusesReply, value)?.statuses
  return statuses?.length === count ? statuses.map(claimStatusOf) : undefined
}

function claimStatusOf(status: WireStatus): ClaimStatus {
  return status.state === 'unknown' ? { state: 'unknown', error: fromWireError(status.error) } : status
}

// ---- keys

/** Empty where the server hides it. */
export const listedId: Schema<string> = { ...anyText }

/** The reply of `GET /v1/keys`. */
export const keyPage: Schema<KeyPage> = object<KeyPage>({
  now: number(),
  keys: list(
    object<ListedKey>({
      key: anyText,
      held: optional(integer()),
      waiting: optional(integer()),
      claims: list(
        object<ListedClaim>({
          id: listedId,
          state: choice('held', 'waiting'),
          mode,
          limit: optional(integer(positive)),
          range: optional(range),
          priority: integer({ least: -Infinity, most: Infinity }),
          fence: integer(),
          ttlMs: amount,
          graceMs: amount,
          maxHoldMs: optional(amount),
          leaving: optional(anyText),
          detached: optional(flag),
          converting: optional(flag),
          enteredAt: number(),
          acquiredAt: number(),
          lastHeartbeat: number(),
          renewalCount: integer(),
          expiresAt: number(),
          runner,
        }),
      ),
    }),
  ),
  next: optional(anyText),
})

/** The page of a reply; undefined if it is none. */
export function pageIn(value: unknown): KeyPage | undefined {
  return understood(keyPage, value)
}

// ---- the store

/** What a server says of its store, as it travels. JSON has no Infinity: null stands for it. */
interface WireStore {
  readonly protocol: number
  readonly name: string
  readonly supports: Omit<Supports, 'pollingDefault'> & { readonly pollingDefault?: WireBackoff }
  readonly dataAgeMs?: number | null
  readonly limits: { readonly bodyBytesMax: number; readonly requestsPerCallMax: number }
}

type WireBackoff = Omit<NonNullable<Supports['pollingDefault']>, 'attempts'> & { readonly attempts?: number | null }

const duration = number(Number.MIN_VALUE, yearMs)

const supports: Schema<WireStore['supports']> = object<WireStore['supports']>(
  {
    shared: flag,
    limit: flag,
    range: flag,
    queue: flag,
    push: flag,
    priority: flag,
    convert: flag,
    // A newer server may know rules that this client does not.
    evict: list(anyText) as Schema<readonly EvictRule[]>,
    grace: flag,
    maxHold: flag,
    fence: flag,
    ttlMinMs: duration,
    ttlMaxMs: duration,
    durationMaxMs: optional(duration),
    ttlAndGraceMaxMs: optional(duration),
    fenceFloorMax: optional(integer(requestBounds.fenceFloor)),
    ttlDefaultMs: optional(duration),
    heartbeatDefaultMs: optional(duration),
    staleDefaultMs: optional(duration),
    pollingDefault: optional(
      object<WireBackoff>({
        attempts: optional(nullable(number(1, Number.MAX_SAFE_INTEGER))),
        minMs: duration,
        maxMs: duration,
        factor: number(1, 100),
        jitter: number(0, 1),
      }),
    ),
    owners: optional(flag),
    renewals: optional(flag),
    lifetime: optional(choice('lease', 'connection')),
  },
  true,
)

/** Any number: another version of the protocol must be read before it can be refused. */
export const protocol: Schema<number> = number()
/** Null: for ever. */
export const dataAge: Schema<number | null> = nullable(amount)

/** The reply of `GET /v1/store`. */
export const storeReply: Schema<WireStore> = object<WireStore>({
  protocol,
  name: anyText,
  supports,
  dataAgeMs: optional(dataAge),
  limits: object<WireStore['limits']>({ bodyBytesMax: integer(positive), requestsPerCallMax: integer(positive) }),
})

/** What a server says of its store. */
export interface StoreReply extends Pick<WireStore, 'protocol' | 'name'> {
  readonly supports: Supports
  /** Undefined: the store does not say. */
  readonly dataAgeMs: number | undefined
  readonly bodyBytesMax: number
  readonly requestsPerCallMax: number
}

/** What a reply says of the store; undefined if it says nothing of the kind. */
export function storeIn(value: unknown): StoreReply | undefined {
  const store = understood(storeReply, value)
  if (store === undefined || store.supports.ttlMinMs > store.supports.ttlMaxMs) return undefined
  const { pollingDefault, ...rest } = store.supports
  const { attempts, minMs = 0, maxMs = 0 } = pollingDefault ?? {}
  if (minMs > maxMs) return undefined
  return {
    protocol: store.protocol,
    name: store.name,
    supports: {
      ...rest,
      ...(pollingDefault && { pollingDefault: { ...pollingDefault, attempts: attempts ?? Infinity } }),
    },
    dataAgeMs: store.dataAgeMs === null ? Infinity : store.dataAgeMs,
    ...store.limits,
  }
}
