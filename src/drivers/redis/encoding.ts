/** Encodes requests for `batch.lua` and `solo.lua`, whose heads describe the format. */
import { claimIdOf, keyOf } from '../../core/contract/requests.ts'
import type { Request } from '../../core/contract/driver.ts'
import { shortRunner } from '../../core/rule/short-runner.ts'
import { isPlain, isPlainRenewal } from '../kit/plain-claim.ts'
import { isAscii } from './replies.ts'
import { hashTags, hashTagNumberOf } from './hash-tags.ts'
import type { RedisKeyspace } from './keyspace.ts'
import { RequestTemplates, recordTtlOf } from './request-templates.ts'

/** What every call of one driver shares. */
export interface Sender {
  readonly keyspace: RedisKeyspace
  readonly channel: string
  /** The store's time in milliseconds, in tests. */
  readonly clock: (() => number) | undefined
}

/** Under a test's clock Redis keeps names for so much longer: far longer than the test. */
const spareMsUnderTest = 3_600_000

/** The keys and arguments of one call of a script. */
export interface ScriptCall {
  readonly keys: readonly string[]
  readonly values: readonly string[]
}

/** The call of `batch.lua` that carries out these requests. */
export function encodeBatch(requests: readonly Request[], { keyspace, channel, clock }: Sender): ScriptCall {
  const keys: string[] = []
  const [now, spareMs] = clock === undefined ? ['', 0] : [String(clock()), spareMsUnderTest]
  const templates = new RequestTemplates(spareMs)
  const tags = new HashTagSet()
  const ids: string[] = []
  const numbers: string[] = []
  let lastKey = ''
  let isEachKeyOnce = true
  for (const request of requests) {
    const key = keyOf(request)
    const tag = hashTagNumberOf(key)
    const template = templates.of(request)
    keys.push(keyspace.recordOf(tag, key))
    if (template.isPlainClaim) tags.add(tag)
    // As a client sorts its requests by key, a key that comes twice is not greater than the one before.
    if (key <= lastKey) isEachKeyOnce = false
    lastKey = key
    ids.push(subjectOf(request))
    numbers.push(template.number)
  }
  const [onceText, tagsText] = isEachKeyOnce ? ['1', tags.text] : ['', '']
  const head = [String(keyspace.tagEnd), channel, now, String(spareMs), onceText, tagsText]
  const [length, idText] = idTexts(ids)
  const { count, texts } = templates
  return { keys, values: [...head, String(count), ...texts, count === 1 ? '' : numbers.join(''), length, idText] }
}

/** The call of `solo.lua` that carries out this request alone; undefined: the request is not plain and must go as a batch. */
export function encodeSolo(request: Request, { keyspace, channel, clock }: Sender): ScriptCall | undefined {
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

/** Where the id begins in a record of the form of `plain.lua`, and how many digits its ttl has. */
const idAt = 81
const ttlDigits = 10

function soloOp(request: Request): string | undefined {
  switch (request.op) {
    case 'claim':
      if (!isPlain(request.claim)) return undefined
      return request.claim.wait ? 'c' : 't'
    case 'renew':
      return isPlainRenewal(request) ? 'r' : undefined
    case 'release':
      return 'd'
    case 'withdraw':
    case 'evict':
      return undefined
  }
}

/** The ids of all requests. If all have one length, as a client's have, they are joined; otherwise the length is 0. */
function idTexts(ids: readonly string[]): [length: string, ids: string] {
  const joined = ids.join('')
  const length = joined.length / ids.length
  const isJoined = ids.every((id) => id.length === length) && isAscii(joined)
  return isJoined ? [String(length), joined] : ['0', JSON.stringify(ids)]
}

/** The id of the claim that a request is about; for an eviction, the fence. */
function subjectOf(request: Request): string {
  return request.op === 'evict' ? String(request.fence) : (claimIdOf(request) as string)
}

/** A set of hash tags, written one after the other. */
class HashTagSet {
  readonly #has: boolean[] = []
  text = ''

  add(tag: number): void {
    if (this.#has[tag] === true) return
    this.#has[tag] = true
    this.text += hashTags[tag]
  }
}
