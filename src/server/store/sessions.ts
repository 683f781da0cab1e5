import type { Request, ClaimStatus, Notification } from '../../core/contract/driver.ts'
import { claimName } from '../../core/contract/requests.ts'
import type { Environment } from '../../core/time/environment.ts'
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

/**
 * Which session sent a claim last, and the stream on which that session is notified. All of it serves hints: a claim
 * that is forgotten here asks again by itself.
 */
export class Sessions {
  readonly #environment: Environment
  readonly #claimsMax: number
  readonly #describe: (status: ClaimStatus) => unknown
  readonly #entries = new Map<string, Entry>()
  readonly #streams = new Map<string, Stream>()

  constructor(environment: Environment, claimsMax: number, describe: (status: ClaimStatus) => unknown) {
    this.#environment = environment
    this.#claimsMax = claimsMax
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
    if (isOver(status)) this.#entries.delete(placeOf(request.op === 'claim' ? request.claim : request))
    // Once more: the answer to a request before it, sent together with it, may have ended the same claim.
    else if (session !== undefined) this.sending(session, request)
  }

  /** The status as its session is answered: a claim that waits and cannot be notified is told to poll. */
  answerFor(session: string | undefined, status: ClaimStatus): ClaimStatus {
    if (session === undefined || status.state !== 'waiting' || this.#streams.has(session)) return status
    return status.againMs <= pollWithinMs ? status : { ...status, againMs: pollWithinMs }
  }

  /** Passes a notification on to the session that sent the claim last, if it has a stream. */
  notify(key: string, id: string, notification: Notification): void {
    const place = placeOf({ key, id })
    const entry = this.#entries.get(place)
    if (entry === undefined) return
    const stream = this.#streams.get(entry.session)
    if (notification === 'poll') return stream?.send('poll', { key, id })
    if (isOver(notification)) this.#entries.delete(place)
    stream?.send('status', { key, id, status: this.#describe(notification) })
  }

  /** The store's own notifications may have been lost. A session without a stream takes the opening of its next one for a gap. */
  gap(): void {
    for (const { send } of this.#streams.values()) send('gap', {})
  }

  /**
   * The notifications of one session. A newer stream of the same session takes the place of an older one, which ends: its caller may be
   * gone without a word, and would count as a stream for long.
   */
  stream(session: string): EventFeed {
    return {
      attach: (send, end) => {
        const stream: Stream = { send, end }
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
    this.#entries.delete(place)
    this.#entries.set(place, { session, until: now + 2 * ttlMs })
    this.#forgetSome(now)
  }

  #forgetSome(now: number): void {
    let looks = looksPerEntry
    for (const [place, entry] of this.#entries) {
      const tooMany = this.#entries.size > this.#claimsMax
      if (looks-- <= 0 && !tooMany) return
      this.#entries.delete(place)
      // A long lease must not stand before shorter ones that are over.
      if (now < entry.until && !tooMany) this.#entries.set(place, entry)
    }
  }
}

/** Whether nothing more can happen to a claim. An expired claim may still be in its grace, and be evicted. */
function isOver(status: ClaimStatus): boolean {
  return status.state === 'absent' && status.reason !== 'expired'
}

/** Names an entry: an id alone may be used with several keys. */
const placeOf = claimName

const sessionForm = /^[A-Za-z0-9_-]{22,64}$/

/** The session of a call, apart for each token; undefined if it names none. */
export function sessionOf(headers: IncomingHttpHeaders, principal: Principal): string | undefined {
  const given = headers[sessionHeader.toLowerCase()]
  if (given === undefined) return undefined
  if (typeof given === 'string' && sessionForm.test(given)) return `${principal.name} ${given}`
  throw invalid(`${sessionHeader} must be 22 to 64 letters, digits, '_' or '-': 128 random bits.`)
}
