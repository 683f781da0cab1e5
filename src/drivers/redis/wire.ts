/** What goes to `batch.lua` and what comes back: see the head of that file. */
import { keyOf } from '../../core/batcher.ts'
import type { AbsentReason, Claim, Request, Runner, Standing, Succession } from '../../core/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Keyspace } from './keyspace.ts'

/** What is the same for every batch of a driver. */
export interface Sender {
  readonly keyspace: Keyspace
  readonly channel: string
  /** The store's time in milliseconds, in tests. */
  readonly clock: (() => number) | undefined
}

/** How long a test's clock lets keys live on: far longer than the test. */
const spareMsUnderTest = 3_600_000

/** The keys and arguments of one call. */
export interface Batch {
  readonly keys: readonly string[]
  readonly values: readonly string[]
}

export function encodeBatch(requests: readonly Request[], { keyspace, channel, clock }: Sender): Batch {
  const keys: string[] = []
  const ids: string[] = []
  const [now, spareMs] = clock === undefined ? ['', 0] : [String(clock()), spareMsUnderTest]
  const kinds = new Kinds(spareMs)
  let numbers = ''
  for (const request of requests) {
    keys.push(keyspace.record(keyOf(request)))
    ids.push(subjectOf(request))
    numbers += kinds.numberOf(request)
  }
  const head = [String(keyspace.tagEnd), channel, now, String(spareMs), numbers, String(kinds.count)]
  return { keys, values: [...head, ...kinds.texts, ...idTexts(ids)] }
}

/** The same for a plain request that comes by itself; undefined: it must go as a batch. */
export function encodeSolo(request: Request, { keyspace, channel, clock }: Sender): Batch | undefined {
  const op = soloOp(request)
  const id = subjectOf(request)
  if (op === undefined || Buffer.byteLength(id) > idBytesMax) return undefined
  const [now, spareMs] = clock === undefined ? ['', 0] : [String(clock()), spareMsUnderTest]
  const values = [op, id, String(keyspace.tagEnd), now, String(spareMs), channel]
  if (request.op === 'claim') {
    const { ttlMs, runner } = request.claim
    values.push(String(ttlMs), lifeOf(ttlMs, spareMs), textOf(runner))
  } else if (request.op === 'renew') {
    values.push(String(request.ttlMs), lifeOf(request.ttlMs, spareMs))
  }
  return { keys: [keyspace.record(keyOf(request))], values }
}

const idBytesMax = 255

function soloOp(request: Request): string | undefined {
  switch (request.op) {
    case 'claim':
      if (claimTerms(request.claim) !== '') return undefined
      return request.claim.wait ? 'c' : 't'
    case 'renew':
      return request.fenceFloor === undefined && request.detached === undefined ? 'r' : undefined
    case 'release':
      return 'd'
    case 'evict':
      return undefined
  }
}

/** For how long the record of a claim is kept: one ttl longer than the claim. */
function lifeOf(ttlMs: number, spareMs: number): string {
  return String(Math.ceil(2 * ttlMs) + spareMs)
}

/** Ids of one length, as a client's are, need nothing between them. */
function idTexts(ids: readonly string[]): [length: string, ids: string] {
  const length = ids[0]?.length ?? 0
  const joined = ids.join('')
  const alike = length > 0 && ids.every((id) => id.length === length) && Buffer.byteLength(joined) === joined.length
  return alike ? [String(length), joined] : ['0', JSON.stringify(ids)]
}

/** The claim a request is about, or the fence to evict. */
function subjectOf(request: Request): string {
  if (request.op === 'claim') return request.claim.id
  return request.op === 'evict' ? String(request.fence) : request.id
}

/**
 * What the requests of a batch have in common: op, ttl, runner and terms are sent once for all that share them. Most
 * batches are of one or two kinds.
 */
class Kinds {
  /** Five for each kind. */
  readonly texts: string[] = []
  readonly #kinds: Kind[] = []
  readonly #spareMs: number
  #last: Kind | undefined

  constructor(spareMs: number) {
    this.#spareMs = spareMs
  }

  get count(): number {
    return this.#kinds.length
  }

  /** Two characters that number the request's kind. */
  numberOf(request: Request): string {
    switch (request.op) {
      case 'claim': {
        const { claim } = request
        return this.#number(claim.wait ? 'c' : 't', claim.ttlMs, claim.runner, claimTerms(claim))
      }
      case 'renew': {
        const { ttlMs, fenceFloor, detached } = request
        const plain = fenceFloor === undefined && detached === undefined
        return this.#number('r', ttlMs, undefined, plain ? '' : JSON.stringify([fenceFloor ?? false, detached ?? null]))
      }
      case 'release':
        return this.#number('d', 0, undefined, '')
      case 'evict':
        return this.#number('e', 0, undefined, JSON.stringify(request.reason))
    }
  }

  #number(op: string, ttlMs: number, runner: Runner | undefined, terms: string): string {
    const same = (kind: Kind): boolean =>
      kind.op === op && kind.ttlMs === ttlMs && kind.runner === runner && kind.terms === terms
    if (this.#last !== undefined && same(this.#last)) return this.#last.number
    // Of many kinds only the latest are looked through: a kind sent twice does no harm.
    const kind = this.#kinds.slice(-kindsRemembered).find(same) ?? this.#add(op, ttlMs, runner, terms)
    this.#last = kind
    return kind.number
  }

  #add(op: string, ttlMs: number, runner: Runner | undefined, terms: string): Kind {
    const { count } = this
    const number = String.fromCharCode(33 + Math.floor(count / 90), 33 + (count % 90))
    const kind = { op, ttlMs, runner, terms, number }
    this.#kinds.push(kind)
    const runnerText = runner === undefined ? '' : textOf(runner)
    this.texts.push(op, String(ttlMs), runnerText, terms, lifeOf(ttlMs, this.#spareMs))
    return kind
  }
}

/** A client claims for the same runner again and again. */
const runnerTexts = new WeakMap<Runner, string>()

function textOf(runner: Runner): string {
  let text = runnerTexts.get(runner)
  if (text === undefined) runnerTexts.set(runner, (text = JSON.stringify(runner)))
  return text
}

interface Kind {
  readonly op: string
  readonly ttlMs: number
  readonly runner: Runner | undefined
  readonly terms: string
  readonly number: string
}

const kindsRemembered = 8

/** All that a plain exclusive lock leaves out; empty for one. */
function claimTerms(claim: Claim): string {
  const { mode, limit, range, replaces, priority, evict, staleMs, graceMs, maxHoldMs, detached } = claim
  if (
    mode === 'exclusive' &&
    priority === 0 &&
    graceMs === 0 &&
    range === undefined &&
    replaces === undefined &&
    evict === undefined &&
    maxHoldMs === undefined &&
    detached !== true
  ) {
    return ''
  }
  return JSON.stringify([
    priority,
    mode === 'shared',
    limit ?? false,
    range?.start ?? false,
    range?.end ?? false,
    replaces ?? false,
    evict ?? false,
    evict === 'stale' ? (staleMs ?? claim.ttlMs) : false,
    graceMs,
    maxHoldMs ?? false,
    detached === true,
  ])
}

/** What a script returned: the answers and, if there is any, the news for other claims of this very client. */
export function openReply(reply: unknown): { readonly text: unknown; readonly news: readonly string[] } {
  if (!Array.isArray(reply)) return { text: reply, news: noNews }
  const [text, ...news] = reply as unknown[]
  return { text, news: news.map(String) }
}

const noNews: readonly string[] = []

/** The standings of a whole batch. */
export function decodeReply(reply: unknown, requests: readonly Request[]): Standing[] {
  if (typeof reply !== 'string') throw malformed(reply)
  const lines = reply.split('\n')
  const clock = Number(lines[0])
  return requests.map((request, index) => {
    const line = lines[index + 1]
    if (line === undefined) throw malformed(reply)
    return line.startsWith('g') ? grantedAtOnce(line, clock, request) : decodeLine(line)
  })
}

/** The standing of a request that came by itself. */
export function decodeSolo(reply: unknown): Standing {
  if (typeof reply !== 'string') throw malformed(reply)
  return decodeLine(reply)
}

/** A plain claim on a free key: it got what it asked for, and its fence is told by how far it is above the clock. */
function grantedAtOnce(line: string, clock: number, request: Request): Standing {
  const ttlMs = request.op === 'claim' ? request.claim.ttlMs : 0
  return { state: 'held', fence: clock + Number(line.slice(2)), ttlMs, leaving: undefined, after: undefined }
}

/** News as it is published: a standing, the claim's id, the key. */
export function decodeNews(message: string): { key: string; id: string; standing: Standing } | undefined {
  const lineEnd = message.indexOf('\n')
  const idEnd = message.indexOf('\n', lineEnd + 1)
  if (lineEnd < 0 || idEnd < 0) return undefined
  try {
    const standing = decodeLine(message.slice(0, lineEnd))
    return { key: message.slice(idEnd + 1), id: message.slice(lineEnd + 1, idEnd), standing }
  } catch {
    // Not from us, or from a version we do not know: news is a hint.
    return undefined
  }
}

function decodeLine(line: string): Standing {
  const first = line.indexOf(' ', 2)
  switch (line[0]) {
    case 'h': {
      const second = line.indexOf(' ', first + 1)
      const fence = Number(line.slice(2, first))
      if (second < 0) {
        return { state: 'held', fence, ttlMs: Number(line.slice(first + 1)), leaving: undefined, after: undefined }
      }
      const more = JSON.parse(line.slice(second + 1)) as { leaving?: string; after?: Succession }
      const ttlMs = Number(line.slice(first + 1, second))
      return { state: 'held', fence, ttlMs, leaving: more.leaving, after: more.after }
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
      return { state: 'unknown', error: foreign() }
    default:
      throw malformed(line)
  }
}

/** The error of a record this version does not understand. */
export function foreign(): LeaseholdError {
  const what = 'The record of this key was written by a newer version of Leasehold. Update it here.'
  return new LeaseholdError('UNAVAILABLE', what, { reason: 'foreign' })
}

function malformed(reply: unknown): LeaseholdError {
  return new LeaseholdError('INVALID', `Redis answered a batch with ${JSON.stringify(reply)}.`)
}
