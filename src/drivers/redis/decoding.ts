/** Decodes the replies of `batch.lua` and `solo.lua`, whose heads describe the format. */
import type { AbsentReason, Request, ClaimStatus, Succession, HeldStatus } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { wholeRunner } from '../../core/rule/short-runner.ts'
import { redisError } from './errors.ts'
import { ReplyError } from './replies.ts'

/** The reply of a script: the answers and, if there are any, the notifications for other claims of this very client. */
export function openReply(reply: unknown): { readonly text: unknown; readonly notifications: readonly string[] } {
  if (!Array.isArray(reply)) return { text: reply, notifications: noNotifications }
  const [text, ...notifications] = reply as unknown[]
  return { text, notifications: notifications.map(String) }
}

const noNotifications: readonly string[] = []

/** The statuses of a whole batch, out of the reply of `batch.lua`. */
export function decodeReply(reply: unknown, requests: readonly Request[]): ClaimStatus[] {
  if (typeof reply !== 'string') throw malformed(reply)
  const answers = new AnswerReader(reply)
  const statuses: ClaimStatus[] = []
  for (const request of requests) statuses.push(answers.next(request))
  return statuses
}

const released: ClaimStatus = { state: 'absent', reason: 'released' }

/** Reads the answers of a batch one after the other. */
class AnswerReader {
  readonly #text: string
  readonly #clock: number
  #at = 0
  /** The last held status. The next claim mostly has the same, as both were granted in one batch. */
  #lastHeld: HeldStatus | undefined

  constructor(text: string) {
    this.#text = text
    this.#clock = this.#number()
    this.#at += 1
  }

  next(request: Request): ClaimStatus {
    const code = this.#text.charCodeAt(this.#at)
    this.#at += 1
    switch (code) {
      case 103: // g: a plain claim was granted, with the clock as its fence
        return this.#held(this.#clock, request)
      case 43: // +: a plain claim was granted, with a fence that much above the clock
        return this.#held(this.#clock + this.#number(), request)
      case 61: // =: a plain claim was renewed for the ttl it asked for
        return this.#held(this.#number(), request)
      case 45: // -: released
        return released
      default:
        return this.#line()
    }
  }

  #held(fence: number, request: Request): ClaimStatus {
    const ttlMs = ttlOf(request)
    if (this.#lastHeld?.fence !== fence || this.#lastHeld.ttlMs !== ttlMs) this.#lastHeld = held(fence, ttlMs)
    return this.#lastHeld
  }

  #number(): number {
    let number = 0
    for (;;) {
      const digit = this.#text.charCodeAt(this.#at) - 48
      if (!(digit >= 0 && digit <= 9)) return number
      number = number * 10 + digit
      this.#at += 1
    }
  }

  /** All other answers are lines. */
  #line(): ClaimStatus {
    const from = this.#at - 1
    const end = this.#text.indexOf('\n', from)
    if (end < 0) throw malformed(this.#text)
    this.#at = end + 1
    return decodeLine(this.#text.slice(from, end))
  }
}

function held(fence: number, ttlMs: number): HeldStatus {
  return { state: 'held', fence, ttlMs, leaving: undefined, after: undefined }
}

function ttlOf(request: Request): number {
  return request.op === 'claim' ? request.claim.ttlMs : request.op === 'renew' ? request.ttlMs : 0
}

/** The status of a single request, out of the reply of `solo.lua`. A fence alone: a plain claim was granted or renewed. */
export function decodeSolo(reply: unknown, request: Request): ClaimStatus {
  if (typeof reply !== 'string') throw malformed(reply)
  if (reply === '-') return released
  const code = reply.charCodeAt(0)
  return code >= 48 && code <= 57 ? held(Number(reply), ttlOf(request)) : decodeLine(reply)
}

/** Reads a notification as it is published: a status, the claim's id and the key, a line each. Undefined: not a notification. */
export function decodeNotification(message: string): { key: string; id: string; status: ClaimStatus } | undefined {
  const lineEnd = message.indexOf('\n')
  const idEnd = message.indexOf('\n', lineEnd + 1)
  if (lineEnd < 0 || idEnd < 0) return undefined
  try {
    const status = decodeLine(message.slice(0, lineEnd))
    return { key: message.slice(idEnd + 1), id: message.slice(lineEnd + 1, idEnd), status }
  } catch {
    // Published by another program or an unknown version. Notifications are hints, so it may be ignored.
    return undefined
  }
}

function decodeLine(line: string): ClaimStatus {
  const first = line.indexOf(' ', 2)
  switch (line[0]) {
    case 'h': {
      const second = line.indexOf(' ', first + 1)
      const fence = Number(line.slice(2, first))
      if (second < 0) return held(fence, Number(line.slice(first + 1)))
      const { leaving, after } = JSON.parse(line.slice(second + 1)) as { leaving?: string; after?: Succession }
      const ttlMs = Number(line.slice(first + 1, second))
      return { state: 'held', fence, ttlMs, leaving, after: after && { ...after, runner: wholeRunner(after.runner) } }
    }
    case 'w': {
      const [, ahead, ttlMs, againMs] = line.split(' ').map(Number)
      return { state: 'waiting', ahead: ahead as number, ttlMs: ttlMs as number, againMs: againMs as number }
    }
    case 'a': {
      if (first < 0) return { state: 'absent', reason: line.slice(2) as AbsentReason }
      const detail = JSON.parse(line.slice(first + 1)) as string
      return { state: 'absent', reason: line.slice(2, first) as AbsentReason, detail }
    }
    case 'x':
      return { state: 'unknown', error: foreignRecord() }
    case 'e':
      return { state: 'unknown', error: redisError(new ReplyError(line.slice(2))) }
    default:
      throw malformed(line)
  }
}

/** The error of a record that this version cannot read. */
export function foreignRecord(): LeaseholdError {
  const message = 'The record of this key cannot be read: another version of Leasehold, or another program, wrote it.'
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'foreign' })
}

function malformed(reply: unknown): LeaseholdError {
  return new LeaseholdError('INVALID', `Redis answered a batch with ${JSON.stringify(reply)}.`)
}
