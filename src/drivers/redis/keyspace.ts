import { LeaseholdError } from '../../core/errors.ts'
import { hashTagNumberOf, hashTags } from './hash-tags.ts'

/** As long as in etcd: names stay short, and a batch within what a server takes. */
const prefixForm = /^[^{}\p{Cc}]{1,200}$/u

/**
 * The names under which everything is stored. For a lock key K whose hash tag is T, all after one prefix:
 *
 * - `{T}k:K` string: the key's record, its holders and its last unclean end
 * - `{T}h:K` hash: the records of holders, by id, once they are too many for the key's record; with them
 * - `{T}e:K`, `{T}s:K`, `{T}g:K` sorted sets: their ids by end, by start of lease and by grant, and
 * - `{T}r:K` sorted set: their ranges
 * - `{T}q:K` sorted set: the ids of waiting claims, by rank
 * - `{T}w:K` hash: the records of waiting claims, by id
 * - `{T}i:K`, `{T}x:K`, `{T}b:K` sorted sets: an index of many waiting claims: their ranges, ends and beginnings
 * - `{T}fence` string: the last fence of all keys with this tag
 * - `{T}birth` string: since when Redis has kept the data of this tag, once that was asked for
 *
 * and the channels `inbox:CLIENT`, one a client. Only `fence` and `birth` never expire.
 */
export class RedisKeyspace {
  readonly prefix: string
  /** Where the hash tag ends in every name, in bytes. */
  readonly tagEnd: number
  /** How the names of records begin, by hash tag. */
  readonly #starts: readonly string[]
  readonly #fences: readonly string[]

  constructor(prefix: string) {
    this.prefix = checkPrefix(prefix)
    this.tagEnd = Buffer.byteLength(prefix) + (hashTags[0] as string).length + 2
    this.#starts = hashTags.map((tag) => `${prefix}{${tag}}k:`)
    this.#fences = hashTags.map((tag) => `${prefix}{${tag}}fence`)
  }

  /** The name of a key's record. */
  record(key: string): string {
    return this.recordOf(hashTagNumberOf(key), key)
  }

  /** The name of the record of a key whose hash tag is known. */
  recordOf(tag: number, key: string): string {
    return (this.#starts[tag] as string) + key
  }

  /** The name of a hash tag's fence counter. */
  fenceOf(tag: number): string {
    return this.#fences[tag] as string
  }

  /** The name under which it is kept since when Redis has had the data of a hash tag. */
  birthOf(tag: number): string {
    return `${this.prefix}{${hashTags[tag]}}birth`
  }

  /** The channel for notifications to a client. */
  channel(client: string): string {
    return `${this.prefix}inbox:${client}`
  }

  /** The lock key of a record's name. */
  keyOf(record: string): string {
    return record.slice(this.prefix.length + (hashTags[0] as string).length + 4)
  }

  /** Whether `name` is that of the record of a key that begins with `keyPrefix`. */
  isRecord(name: unknown, keyPrefix: string): name is string {
    if (typeof name !== 'string') return false
    const key = this.keyOf(name)
    return key.startsWith(keyPrefix) && name === this.record(key)
  }

  /** A pattern of SCAN for the records of keys that begin with `keyPrefix`. */
  pattern(keyPrefix: string): string {
    return `${escaped(this.prefix)}{???}k:${escaped(keyPrefix)}*`
  }
}

/** Refuses what would be read as something else: braces as a hash tag, a line break as the end of a name. */
function checkPrefix(prefix: unknown): string {
  if (typeof prefix === 'string' && prefixForm.test(prefix) && prefix.isWellFormed()) return prefix
  const needs = '1 to 200 characters, no braces, no line breaks or other control characters'
  throw new LeaseholdError('INVALID', `The prefix ${JSON.stringify(prefix)} is not usable. It needs ${needs}.`)
}

/** A pattern that matches this text only. */
function escaped(text: string): string {
  return text.replaceAll(/[*?[\]\\^-]/g, String.raw`\$&`)
}
