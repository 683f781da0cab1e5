import { createHash } from 'node:crypto'
import type { AbsentStatus, Claim, ClaimStatus, HeldStatus, Request } from '../../core/contract/driver.ts'
import { limitFault } from '../../core/contract/limits.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import { checkNamespace, named, storeKey } from '../../core/contract/scope.ts'
import { LeaseholdError, type ErrorCode } from '../../core/errors.ts'
import { isDuration, durationMs } from '../../core/time/duration.ts'
import type { Environment } from '../../core/time/environment.ts'
import { leaseHeader, mode } from '../../core/wire/replies.ts'
import { checked, integer, metadata, object, optional, string, type Schema } from '../../core/wire/schema.ts'
import { checkListing } from '../auth/rights.ts'
import { json, type Call, type JsonSchema, type Route } from '../contract/call.ts'
import { HttpError, invalid } from '../contract/http-error.ts'
import type { ServerLimits } from '../contract/limits.ts'
import { readQuery } from '../contract/query.ts'
import type { AuthorizedStore } from '../store/authorized-store.ts'
import type { ClaimWaits, WaitOutcome } from '../store/claim-waits.ts'
import { publicFault } from '../store/store-fault.ts'
import {
  leaseDocument,
  releaseDocument,
  seenLock,
  seenLockOf,
  type LeaseDocument,
  type ReleaseDocument,
} from './lease-documents.ts'
import { bytesPerRequest } from '../auth/rate-limits.ts'
import { leaseExample, lockExample, problemExample } from './lock-examples.ts'

/** What the routes need. */
export interface LockRouteParts {
  readonly store: AuthorizedStore
  readonly environment: Environment
  readonly limits: ServerLimits
  readonly waits: ClaimWaits
}

const ttlDefaultMs = 30_000
/** When a lock that is held may be asked for again. */
const retryAfterMs = 1000
/** Claims that a look at a lock shows. */
const claimsShownMax = 100
/** 128 random bits, however they are written. */
const idForm = /^[A-Za-z0-9_-]{22,128}$/

const durationText = string(64)
const claimQuery = {
  ttl: optional(durationText),
  wait: optional(durationText),
  mode: optional(mode),
  limit: optional(integer(requestBounds.permits)),
  priority: optional(integer(requestBounds.priority)),
}
const renewQuery = { ttl: optional(durationText) }

/** What a claim says of itself, beside its parameters. */
interface ClaimBody {
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}
const claimBody: Schema<ClaimBody> = object<ClaimBody>({
  metadata: optional({ ...metadata, description: 'For people who look at the lock.' }),
})

const path = '/v1/locks/{namespace}/{name}'
const pathSchema: Readonly<Record<string, JsonSchema>> = {
  namespace: { type: 'string' },
  name: { type: 'string', description: 'The name of the lock. Encode a slash as %2F.' },
}
const givenId: JsonSchema = {
  type: 'string',
  pattern: idForm.source,
  description: 'An id of your own, 128 random bits, so that the call may be sent again. It is the secret of the lease.',
}
const leaseId: JsonSchema = { type: 'string', pattern: idForm.source, description: 'The id of the lease.' }
const problems = { problems: true } as const

/** The routes for people and for programs in other languages: one lock a call. */
export function lockRoutes(parts: LockRouteParts): readonly Route[] {
  return [claimRoute(parts), renewRoute(parts), releaseRoute(parts), lookRoute(parts)]
}

/** `PUT /v1/locks/{namespace}/{name}`: takes a lock, and waits for it if asked to. */
function claimRoute(parts: LockRouteParts): Route {
  const { environment, waits } = parts
  return {
    method: 'PUT',
    path,
    ...problems,
    right: 'lock',
    takesBody: 'optional',
    waits: (query) => (query.get('wait') ?? '0') !== '0',
    summary: 'Takes a lock, or waits for it. The lease is yours until it expires: renew it, and release it.',
    schema: {
      path: pathSchema,
      query: claimQuery,
      headers: { [leaseHeader]: givenId },
      body: claimBody,
      answer: leaseDocument,
      examples: {
        parameters: { ...lockExample, ttl: '30s', wait: '20s', mode: 'exclusive', limit: 3, priority: 0 },
        body: { metadata: { job: 'nightly' } },
        answer: leaseExample,
        problem: problemExample,
      },
    },
    async handle(call) {
      const calledAt = environment.now()
      const place = placeIn(call)
      const id = idIn(call)
      const { claim, waitMs } = claimOf(parts, call, place.key, id ?? environment.id())
      const submit = async (request: Request): Promise<ClaimStatus> => submitted(parts, call, request)
      const outcome = await waits.follow({ claim, waitMs, isGivenId: id !== undefined, signal: call.signal, submit })
      if (outcome.how !== 'granted') throw refusalFor(outcome, place.name, waitMs, call.signal)
      const letGo = (): void => void submit({ op: 'release', key: claim.key, id: claim.id }).catch(() => {})
      // An id that never reached its caller is of no use to anybody; one of the caller's own can be asked for again.
      const onUnsent = id === undefined ? letGo : undefined
      try {
        const terms = { ...place, id: claim.id, ttlMs: claim.ttlMs, calledAt }
        return { ...json(leaseOf(environment, terms, outcome.status, outcome.sentAt), 200, {}), onUnsent }
      } catch (error) {
        onUnsent?.()
        throw error
      }
    },
  }
}

/** `POST /v1/locks/{namespace}/{name}/renew`: the lease lasts for its ttl from now on. */
function renewRoute(parts: LockRouteParts): Route {
  const { environment } = parts
  return {
    method: 'POST',
    path: `${path}/renew`,
    ...problems,
    right: 'lock',
    takesBody: 'none',
    summary: 'Renews a lease: it lasts for the ttl from now on.',
    schema: {
      path: pathSchema,
      query: renewQuery,
      headers: { [leaseHeader]: leaseId },
      required: ['ttl', leaseHeader],
      answer: leaseDocument,
      examples: { parameters: { ...lockExample, ttl: '30s' }, answer: leaseExample, problem: problemExample },
    },
    async handle(call) {
      const calledAt = environment.now()
      const place = placeIn(call)
      const id = idNeeded(call)
      const { ttl } = readQuery(renewQuery, call.query)
      // No default: a lease that was taken for longer would be cut short.
      if (ttl === undefined)
        throw invalid('A renewal needs ttl, such as ttl=30s: how long the lease lasts from now on.')
      const ttlMs = durationOf(ttl, 'ttl')
      const sentAt = environment.now()
      const status = await submitted(parts, call, { op: 'renew', key: place.key, id, ttlMs })
      if (status.state === 'unknown') throw publicFault(status.error)
      if (status.state !== 'held') throw notHeld(place.name, status)
      return json(leaseOf(environment, { ...place, id, ttlMs, calledAt }, status, sentAt))
    },
  }
}

/** `DELETE /v1/locks/{namespace}/{name}`: ends a lease, or a claim that waits. */
function releaseRoute(parts: LockRouteParts): Route {
  const { waits } = parts
  return {
    method: 'DELETE',
    path,
    ...problems,
    right: 'lock',
    summary: 'Releases a lease. May be sent again: it says whether this call ended it.',
    schema: {
      path: pathSchema,
      headers: { [leaseHeader]: leaseId },
      required: [leaseHeader],
      answer: releaseDocument,
      examples: { parameters: lockExample, answer: { released: true }, problem: problemExample },
    },
    async handle(call) {
      readQuery({}, call.query)
      const { key } = placeIn(call)
      const id = idNeeded(call)
      const status = await submitted(parts, call, { op: 'release', key, id })
      waits.cancel({ key, id })
      if (status.state !== 'absent') throw publicFault(status.state === 'unknown' ? status.error : undefined)
      const isReleased = status.reason === 'released'
      const answer: ReleaseDocument = isReleased
        ? { released: true }
        : { released: false, code: 'NOT_HELD', reason: status.reason }
      return json(answer)
    },
  }
}

/** `GET /v1/locks/{namespace}/{name}`: who holds the lock and who waits. */
function lookRoute({ store }: LockRouteParts): Route {
  return {
    method: 'GET',
    path,
    ...problems,
    right: 'read',
    summary: 'Shows who holds a lock and who waits for it, without ids.',
    schema: {
      path: pathSchema,
      answer: seenLock,
      examples: { parameters: lockExample, problem: problemExample },
    },
    async handle(call) {
      readQuery({}, call.query)
      const place = placeIn(call)
      checkListing(place.key, call.principal)
      await call.turn()
      const answer = json(seenLockOf(place, await store.listFor(call, { key: place.key, claims: claimsShownMax })))
      call.charge(Math.floor((answer.body as string).length / bytesPerRequest))
      return answer
    },
  }
}

// ---- what a call asks for

interface LockPlace {
  readonly namespace: string
  readonly name: string
  readonly key: string
}

function placeIn({ parameters }: Call): LockPlace {
  const { namespace = '', name = '' } = parameters
  return { namespace, name, key: storeKey(checkNamespace(namespace), named(name).key) }
}

function idIn({ headers }: Call): string | undefined {
  const given = headers[leaseHeader.toLowerCase()]
  if (given === undefined || (typeof given === 'string' && idForm.test(given))) return given
  throw invalid(`${leaseHeader} must be 22 to 128 letters, digits, '_' or '-': 128 random bits.`)
}

function idNeeded(call: Call): string {
  const id = idIn(call)
  if (id === undefined) throw invalid(`Send the id of the lease as the header ${leaseHeader}.`)
  return id
}

function claimOf(
  { store, limits }: LockRouteParts,
  call: Call,
  key: string,
  id: string,
): { readonly claim: Claim; readonly waitMs: number } {
  const { ttl, wait, mode: asked, limit, priority = 0 } = readQuery(claimQuery, call.query)
  const { metadata: said } = call.body === undefined ? {} : checked(claimBody, call.body)
  const ttlMs = ttl === undefined ? (store.supports.ttlDefaultMs ?? ttlDefaultMs) : durationOf(ttl, 'ttl')
  const waitMs = wait === undefined ? 0 : durationOf(wait, 'wait')
  if (waitMs > limits.waitMaxMs)
    throw invalid(`wait is ${waitMs} ms; this server lets a call wait ${limits.waitMaxMs} ms.`)
  if (waitMs > 0 && !store.supports.queue) {
    throw new LeaseholdError(
      'UNSUPPORTED',
      'The store behind this server keeps no queue. Ask without wait, and again later.',
    )
  }
  if (asked === 'exclusive' && limit !== undefined)
    throw invalid('limit is for shared locks. Leave mode out, or say mode=shared.')
  // Claims of one caller have nothing in common that we could know: each has a runner of its own.
  const digest = createHash('sha256').update(id).digest('hex').slice(0, 32)
  const runner = { id: digest, incarnation: digest, host: '', pid: 0, client: 'http', ...(said && { metadata: said }) }
  const claim: Claim = {
    key,
    id,
    mode: asked ?? (limit === undefined ? 'exclusive' : 'shared'),
    ...(limit !== undefined && { limit }),
    priority,
    wait: waitMs > 0,
    ttlMs,
    graceMs: 0,
    runner,
  }
  return { claim, waitMs }
}

/** With its unit: whether 30 means seconds or milliseconds is not for us to guess. */
function durationOf(text: string, name: string): number {
  if (text === '0') return 0
  if (isDuration(text)) return durationMs(text, name)
  throw invalid(`${name} is ${JSON.stringify(text)}. Write it with its unit: 500ms, 30s, 5m or 1h.`)
}

/** Sends one request of the caller's to the store, if its token allows it. */
async function submitted({ store }: LockRouteParts, call: Call, request: Request): Promise<ClaimStatus> {
  const fault = limitFault(request, store.supports)
  if (fault?.code === 'INVALID') throw invalid(`${parameterOf(fault.field)} ${fault.what}.`)
  if (fault !== undefined) {
    throw new LeaseholdError('UNSUPPORTED', `The store behind this server cannot do ${fault.what}.`)
  }
  const [status] = await store.sendFor(call, [request])
  return status as ClaimStatus
}

/** What callers call a field. */
function parameterOf(field: string): string {
  return field.replace(/^runner\./, '').replace(/Ms$/, '')
}

// ---- what it is answered

/** The lease for its holder. Throws if there is nothing left of it: a lease that is over must not reach its holder. */
function leaseOf(
  environment: Environment,
  {
    namespace,
    name,
    id,
    ttlMs,
    calledAt,
  }: LockPlace & { readonly id: string; readonly ttlMs: number; readonly calledAt: number },
  status: HeldStatus,
  sentAt: number,
): LeaseDocument {
  const now = environment.now()
  // Counted from before the request was sent to the store: the answer may have been long on its way.
  const expiresInMs = Math.floor(Math.min(ttlMs, status.ttlMs) - (now - sentAt))
  if (expiresInMs <= 0) throw tooLate(name, ttlMs, Math.round(now - sentAt))
  const { fence, leaving, after } = status
  return {
    namespace,
    name,
    id,
    fence,
    ttlMs,
    expiresInMs,
    expiresAt: new Date(environment.wall() + expiresInMs).toISOString(),
    waitedMs: Math.floor(now - calledAt),
    leaving,
    after: after && { how: after.how, cause: after.cause, fence: after.fence },
  }
}

const statusByLockCode: Partial<Readonly<Record<ErrorCode, number>>> = { NOT_HELD: 404 }

function lockError(code: ErrorCode, message: string, retryMs?: number): HttpError {
  const error = new LeaseholdError(code, message, retryMs === undefined ? {} : { retryAfterMs: retryMs })
  return new HttpError(statusByLockCode[code] ?? 409, 'lock', error)
}

/** No fault of the server: a caller may ask for a lease that no answer can be quick enough for. */
function tooLate(name: string, ttlMs: number, tookMs: number): HttpError {
  const message = `The lease on ${JSON.stringify(name)} was over before you could be told: it lasts ${ttlMs} ms, and the store took ${tookMs} ms.`
  return lockError('LOST', `${message} Ask again with a new id, for longer.`)
}

function refusalFor(
  outcome: Exclude<WaitOutcome, { how: 'granted' }>,
  name: string,
  waitMs: number,
  { reason }: AbortSignal,
): Error {
  const lock = JSON.stringify(name)
  switch (outcome.how) {
    case 'failed':
      // Whether the store carried the request out is not known: with an id of its own, the caller can ask again.
      return publicFault(outcome.error)
    case 'refused':
      return absence(outcome.status, lock)
    case 'timed-out':
      // The claim waits by another call, which this one was not to do.
      if (waitMs === 0) return absence({ state: 'absent', reason: 'refused' }, lock)
      return lockError('TIMEOUT', `${lock} was not granted within ${waitMs} ms. Ask again to queue anew.`, retryAfterMs)
    case 'cancelled':
      return lockError('ABORTED', `The claim on ${lock} was released while it waited.`)
    case 'gone':
      // The token is good no more; or there is nobody left to answer.
      return reason instanceof HttpError ? reason : lockError('ABORTED', `The caller that waited for ${lock} has gone.`)
    case 'interrupted': {
      const message = `This server waits no longer for ${lock}. Ask again, with the same id if you gave one.`
      const error = new LeaseholdError('UNAVAILABLE', message, { reason: 'draining', retryAfterMs })
      return new HttpError(503, 'draining', error)
    }
  }
}

/** Why a claim was not granted. */
function absence({ reason, detail }: AbsentStatus, lock: string): HttpError {
  switch (reason) {
    case 'refused':
      return lockError('HELD', `${lock} is held by others. Ask again later, or wait for it: wait=20s.`, retryAfterMs)
    case 'mismatch':
      return lockError('SCOPE_MISMATCH', `${lock} is held with another limit. All of its holders must name the same.`)
    case 'deadlock':
      return lockError('DEADLOCK', `To wait for ${lock} would never end.`)
    default: {
      const why = detail === undefined ? reason : `${reason}, ${detail}`
      return lockError('LOST', `The claim with this id on ${lock} has ended: ${why}. Ask again with a new id.`)
    }
  }
}

function notHeld(name: string, status: Exclude<ClaimStatus, { state: 'unknown' | 'held' }>): HttpError {
  const why = status.state === 'waiting' ? 'it still waits' : status.reason
  return lockError('NOT_HELD', `No lease with this id holds ${JSON.stringify(name)}: ${why}. Stop what it protects.`)
}
