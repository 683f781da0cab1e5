/** What goes to `batch.lua` and `solo.lua`: see the heads of those files. */
import { keyOf } from '../../core/contract/requests.ts'
import type { Request } from '../../core/contract/driver.ts'
import { shortRunner } from '../../core/rule/short-runner.ts'
import { isAscii } from './replies.ts'
import { hashTags, hashTagNumberOf } from './hash-tags.ts'
import type { Keyspace } from './keyspace.ts'
import { claimTerms, RequestTemplates, recordTtlOf } from './request-templates.ts'

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
  const [now, spareMs] = clock === undefined ? ['', 0] : [String(clock()), spareMsUnderTest]
  const templates = new RequestTemplates(spareMs)
  const tags = new Tags()
  let [ids, numbers, last] = ['', '', '']
  let apart = true
  for (const request of requests) {
    const key = keyOf(request)
    const tag = hashTagNumberOf(key)
    const kind = templates.of(request)
    keys.push(keyspace.recordOf(tag, key))
    if (kind.claimsPlainly) tags.add(tag)
    // A client's requests are in the order of their keys: then this sees every key that comes twice.
    if (key <= last) apart = false
    last = key
    ids += subjectOf(request)
    numbers += kind.number
  }
  const head = [String(keyspace.tagEnd), channel, now, String(spareMs), apart ? '1' : '', apart ? tags.text : '']
  const [length, idText] = idTexts(ids, requests)
  const { count, texts } = templates
  return { keys, values: [...head, String(count), ...texts, count === 1 ? '' : numbers, length, idText] }
}

/** The same for a plain request that comes by itself; undefined: it must go as a batch. */
export function encodeSolo(request: Request, { keyspace, channel, clock }: Sender): Batch | undefined {
  const op = soloOp(request)
  const id = subjectOf(request)
  if (op === undefined || id.includes('\n')) return undefined
  const tag = hashTagNumberOf(keyOf(request))
  const keys = [keyspace.recordOf(tag, keyOf(request))]
  const values = [op, keyspace.fenceOf(tag), `${id}\n${channel}\n`]
  const spareMs = clock === undefined ? 0 : spareMsUnderTest
  if (request.op === 'claim' || request.op === 'renew') {
    const { ttlMs } = request.op === 'claim' ? request.claim : request
    if (!Number.isInteger(ttlMs) || ttlMs >= 10 ** ttlDigits) return undefined
    if (request.op === 'claim') values[2] += shortRunner(request.claim.runner)
    values.push(recordTtlOf(ttlMs, spareMs), String(ttlMs).padStart(ttlDigits, '0'))
  } else {
    values.push(String(idAt + Buffer.byteLength(values[2] as string) - 1))
    if (clock !== undefined) values.push('')
  }
  if (clock !== undefined) values.push(String(spareMs), String(clock()))
  return { keys, values }
}

/** Where the id begins in a record of the form of plain.lua, and how many digits its ttl has. */
const idAt = 81
const ttlDigits = 10

function soloOp(request: Request): string | undefined {
  switch (request.op) {
    case 'claim':
      if (claimTerms(request.claim) !== '') return undefined
      return request.claim.wait ? 'c' : 't'
    case 'renew':
      return request.fenceFloor === undefined && request.detached === undefined ? 'r' : undefined
    case 'release':
      return 'd'
    case 'withdraw':
    case 'evict':
      return undefined
  }
}

/** Ids of one length, as a client's are, need nothing between them. */
function idTexts(joined: string, requests: readonly Request[]): [length: string, ids: string] {
  const length = joined.length / requests.length
  const alike = requests.every((request) => subjectOf(request).length === length) && isAscii(joined)
  return alike ? [String(length), joined] : ['0', JSON.stringify(requests.map((request) => subjectOf(request)))]
}

/** The claim a request is about, or the fence to evict. */
function subjectOf(request: Request): string {
  if (request.op === 'claim') return request.claim.id
  return request.op === 'evict' ? String(request.fence) : request.id
}

/** The hash tags of some requests, each once. */
class Tags {
  readonly #has: boolean[] = []
  text = ''

  add(tag: number): void {
    if (this.#has[tag] === true) return
    this.#has[tag] = true
    this.text += hashTags[tag]
  }
}
