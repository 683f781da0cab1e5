import type { Request, ClaimStatus, Notification } from '../../core/contract/driver.ts'
import { claimName } from '../../core/contract/requests.ts'
import type { Environment } from '../../core/time/environment.ts'
import { readableStatus } from '../auth/readable-names.ts'
import type { EventFeed, Principal } from '../contract/call.ts'
import type { IncomingHttpHeaders } from 'node:http'
import { sessionHeader } from '../../core/wire/replies.ts'
import { invalid } from '../contract/http-error.ts'

/** A claim whose session wants notifications. */
interface Entry {
  readonly session: string
  /** When the entry is forgotten: two ttls after the last request for the claim. */
  readonly until: number
}

type Send = (event: string, data: unknown) => void

interface Stream {
  /** Whose token opened it. */
  readonly principal: Principal
  readonly send: Send
  readonly end: () => void
}

/**
 * How soon a claim that waits asks again if its session has no stream here. Behind a proxy that spreads calls over several
 * servers, the stream may be at another of them, which will not hear of this claim.
 */
const pollWithinMs = 1000

/** How many of the oldest entries are checked whenever one is made: more than one, so that they do not pile up. */
const looksPerEntry = 2

/** How many claims are remembered, of all tokens and of each. A claim of a token that has its share is not remembered, and polls. */
export interface SessionLimits {
  readonly claimsMax: number
  readonly claimsPerTokenMax: number
}

/**
 * Which session sent a claim last, and the stream on which that session is notified. All of it serves hints: a claim
 * that is forgotten here asks again by itself.
 */
export class Sessions {
  readonly #environment: Environment
  readonly #limits: SessionLimits
  /** How many entries each token has. */
  readonly #counts = new Map<string, number>()
  readonly #describe: (status: ClaimStatus) => unknown
  readonly #entries = new Map<string, Entry>()
  readonly #streams = new Map<string, Stream>()

  constructor(environment: Environment, limits: SessionLimits, describe: (status: ClaimStatus) => unknown) {
    this.#environment = environment
    this.#limits = limits
    this.#describe = describe
  }

  get claims(): number {
    return this.#entries.size
  }

  /** Notes a request before it is sent: a notification may arrive before the answer. */
  sending(session: string, request: Request): void {
    if (request.op === 'claim') this.#note(session, placeOf(request.claim), request.claim.ttlMs)
    else if (request.op === 'renew') this.#note(session, placeOf(request), request.ttlMs)
  }

  /** Takes in what became of a request. */
  answered(session: string | undefined, request: Request, status: ClaimStatus): void {
    if (request.op === 'evict') return
    const place = placeOf(request.op === 'claim' ? request.claim : request)
    if (isOver(status)) this.#forget(place)
    // The answer to a request before it, sent together with it, may have ended the same claim: it is noted once more.
    else if (session !== undefined && !this.#entries.has(place)) this.sending(session, request)
  }

  /** The status as its session is answered: a claim that waits and cannot be notified has to poll. */
  answerFor(session: string | undefined, request: Request, status: ClaimStatus): ClaimStatus {
    if (session === undefined || status.state !== 'waiting' || request.op === 'evict') return status
    const isNoted = this.#entries.has(placeOf(request.op === 'claim' ? request.claim : request))
    if (isNoted && this.#streams.has(session)) return status
    return status.againMs <= pollWithinMs ? status : { ...status, againMs: pollWithinMs }
  }

  /** Passes a notification on to the session that sent the claim last, if it has a stream. */
  notify(key: string, id: string, notification: Notification): void {
    const place = placeOf({ key, id })
    const entry = this.#entries.get(place)
    if (entry === undefined) return
    const stream = this.#streams.get(entry.session)
    if (notification === 'poll') return stream?.send('poll', { key, id })
    if (isOver(notification)) this.#forget(place)
    if (stream === undefined) return
    const status = this.#describe(readableStatus(notification, key, stream.principal))
    stream.send('status', { key, id, status })
  }

  /** The store's own notifications may have been lost. A session without a stream takes the opening of its next one for a gap. */
  gap(): void {
    for (const { send } of this.#streams.values()) send('gap', {})
  }

  /**
   * The notifications of one session. A newer stream of the same session takes the place of an older one, which ends: its caller may be
   * gone without a word, and would count as a stream for long.
   */
  stream(session: string, principal: Principal): EventFeed {
    return {
      attach: (send, end) => {
        const stream: Stream = { principal, send, end }
        const older = this.#streams.get(session)
        this.#streams.set(session, stream)
        older?.end()
        return {
          [Symbol.dispose]: () => {
            if (this.#streams.get(session) === stream) this.#streams.delete(session)
          },
        }
      },
    }
  }

  #note(session: string, place: string, ttlMs: number): void {
    const now = this.#environment.now()
    // Last in the order of the map: the oldest entries come first.
    this.#forget(place)
    const token = tokenOf(session)
    const count = this.#counts.get(token) ?? 0
    if (count < this.#limits.claimsPerTokenMax) {
      this.#counts.set(token, count + 1)
      this.#entries.set(place, { session, until: now + 2 * ttlMs })
    }
    this.#forgetSome(now)
  }

  #forget(place: string): void {
    const entry = this.#entries.get(place)
    if (entry === undefined) return
    this.#entries.delete(place)
    const token = tokenOf(entry.session)
    const left = (this.#counts.get(token) ?? 1) - 1
    if (left > 0) this.#counts.set(token, left)
    else this.#counts.delete(token)
  }

  #forgetSome(now: number): void {
    let looks = looksPerEntry
    for (const [place, entry] of this.#entries) {
      const tooMany = this.#entries.size > this.#limits.claimsMax
      if (looks-- <= 0 && !tooMany) return
      if (now >= entry.until || tooMany) {
        this.#forget(place)
        continue
      }
      // A long lease must not stand before shorter ones that are over.
      this.#entries.delete(place)
      this.#entries.set(place, entry)
    }
  }
}

/** Whether nothing more can happen to a claim. An expired claim may still be in its grace, and be evicted. */
function isOver(status: ClaimStatus): boolean {
  return status.state === 'absent' && status.reason !== 'expired'
}

/** Names an entry: an id alone may be used with several keys. */
const placeOf = claimName

/** The token of a session, as `sessionOf` names it. */
function tokenOf(session: string): string {
  return session.slice(0, Math.max(0, session.lastIndexOf(' ')))
}

const sessionForm = /^[A-Za-z0-9_-]{22,64}$/

/** The session of a call, apart for each token; undefined if it names none. */
export function sessionOf(headers: IncomingHttpHeaders, principal: Principal): string | undefined {
  const given = headers[sessionHeader.toLowerCase()]
  if (given === undefined) return undefined
  if (typeof given === 'string' && sessionForm.test(given)) return `${principal.name} ${given}`
  throw invalid(`${sessionHeader} must be 22 to 64 letters, digits, '_' or '-': 128 random bits.`)
}
