/**
 * A key's document as MongoDB keeps it. Runners are text: what people say about themselves may have names with dots and
 * dollars, which mean something to the server.
 */
import type { News } from '../../core/admission.ts'
import { howEnded } from '../../core/admission/lease-time.ts'
import type { ClaimRecord, Ended } from '../../core/claim-record.ts'
import type { Claim, Runner, Standing, Succession } from '../../core/driver.ts'
import type { KeyDocument } from '../../core/key-document.ts'

/** The format of documents this version writes, as `core/key-document.ts` counts them. */
export const formatVersion = 1

/** How long after its last fence a record must be kept, in milliseconds of the clock that fences begin at. */
export const keptForMs = 3_600_001
/** By how much longer it is kept, so that its date, which is indexed, need not change with every write. */
export const keptLongerMs = 3_600_000

export type WithRunnerText<Type> = Omit<Type, 'runner'> & { readonly runner: string }

/** A claim, with the channel of the driver that looks after it. */
export interface StoredClaim extends Omit<ClaimRecord, 'claim' | 'after' | 'died'> {
  readonly claim: WithRunnerText<Omit<Claim, 'key'>>
  readonly after?: WithRunnerText<Succession> | undefined
  readonly channel: string
}

/** The one holder of a key nobody waits for, as it will be remembered if it is found to be over. */
export interface LastHolder extends WithRunnerText<Succession> {
  readonly id: string
  readonly ttlMs: number
  readonly expiresAt: number
  /** Whoever finds it is its successor. */
  readonly told: true
}

/** The last instant a date can have. */
const never = 8_640_000_000_000_000

/** News for another driver, told by the write that made it. */
export interface StoredNews {
  readonly to: string
  readonly id: string
  readonly standing: string
}

export interface StoredKey {
  readonly _id: string
  readonly version: number
  /** Different after every write: what compare-and-swap compares. */
  readonly revision: string
  /** The server's time of the last write. */
  readonly writtenAt: number
  readonly lastFence: number
  readonly ended?: WithRunnerText<Ended> | undefined
  /** Holders first, then waiters in their order. */
  readonly claims: readonly StoredClaim[]
  /** From when on a newcomer may simply take the key; `never` where more than one claim must be looked at. */
  readonly freeAt: number
  /** How the last holder will have ended if it is found to be over then: what its successor is told. */
  readonly last?: LastHolder | undefined
  readonly news?: readonly StoredNews[] | undefined
  /** When the TTL index may collect it: not before everything in it is over and its last fence cannot come again. */
  readonly expiresAt: Date
}

/** What a read must give back. */
export const readFields = { version: 1, revision: 1, writtenAt: 1, lastFence: 1, ended: 1, claims: 1 } as const

export function encodeClaim(claim: Claim): StoredClaim['claim'] {
  const { key: _key, runner, ...rest } = claim
  return { ...rest, runner: JSON.stringify(runner) }
}

export function encodeRecord(record: ClaimRecord, channel: string): StoredClaim {
  const { claim, after, died: _died, ...rest } = record
  return { ...rest, claim: encodeClaim(claim), channel, ...(after !== undefined && { after: withRunnerText(after) }) }
}

/** The document as the rule reads it. Left as it is where it makes no sense: the rule's reader says so. */
export function decodeDocument(key: string, stored: StoredKey): KeyDocument {
  const { version, lastFence, ended, claims } = stored
  if (version !== formatVersion || !Array.isArray(claims)) return stored as unknown as KeyDocument
  return {
    version,
    lastFence,
    ended: ended === undefined ? undefined : decodeEnded(ended),
    claims: claims.map((claim: StoredClaim) => decodeRecord(key, claim)),
  }
}

function decodeRecord(key: string, stored: StoredClaim): ClaimRecord {
  const { claim, after, channel: _channel, ...rest } = stored
  return {
    ...rest,
    claim: { ...claim, key, runner: readRunner(claim?.runner) },
    after: after === undefined ? undefined : decodeSuccession(after),
  }
}

function decodeSuccession({ how, fence, runner }: WithRunnerText<Succession>): Succession {
  return { how, fence, runner: readRunner(runner) }
}

function decodeEnded({ id, how, detail, fence, runner, until, told }: WithRunnerText<Ended>): Ended {
  return { id, how, detail, fence, runner: readRunner(runner), until, told }
}

/** What a newcomer needs to take the key in one step: nobody there, or one holder whose time will be over. */
export function freedom({ claims, lastFence, ended }: KeyDocument): Pick<StoredKey, 'freeAt' | 'last'> {
  const [holder] = claims
  // Who comes first after an unclean end is told of it, by the rule.
  if (holder === undefined) return { freeAt: ended === undefined || ended.told ? 0 : ended.until }
  if (claims.length > 1 || holder.state === 'waiting' || lastFence >= Number.MAX_SAFE_INTEGER) return { freeAt: never }
  const { claim, expiresAt, fence, ttlMs } = holder
  const how = howEnded(holder)
  const last = { id: claim.id, how, fence, runner: JSON.stringify(claim.runner), ttlMs, expiresAt, told: true } as const
  return { freeAt: expiresAt + claim.graceMs, last }
}

export function encodeEnded(ended: Ended): WithRunnerText<Ended> {
  return withRunnerText(ended)
}

export function encodeNews({ record, standing }: News, to: string): StoredNews {
  return { to, id: record.claim.id, standing: JSON.stringify(standing) }
}

export function decodeStanding(text: string): Standing {
  return JSON.parse(text) as Standing
}

/** From when on nothing in the document matters any more. */
export function forgetAt(document: KeyDocument): Date {
  const ends = document.claims.map(({ expiresAt, claim, ttlMs }) => expiresAt + claim.graceMs + ttlMs)
  const fenceOver = Math.ceil(document.lastFence / 1000) + keptForMs + keptLongerMs
  return new Date(ends.reduce((last, end) => Math.max(last, end), Math.max(fenceOver, document.ended?.until ?? 0)))
}

function withRunnerText<Type extends { readonly runner: Runner }>(value: Type): WithRunnerText<Type> {
  return { ...value, runner: JSON.stringify(value.runner) }
}

/** The standing of a claim that was carried out in one step, counted from that step. */
export function heldStanding(stored: StoredClaim): Standing {
  const { fence, expiresAt, lastHeartbeat, after } = stored
  return {
    state: 'held',
    fence,
    ttlMs: expiresAt - lastHeartbeat,
    leaving: undefined,
    after: after === undefined ? undefined : decodeSuccession(after),
  }
}

function readRunner(text: string | undefined): Runner {
  return JSON.parse(text ?? '{}') as Runner
}
