import { LeaseholdError } from '../../core/errors.ts'
import { hashTagNumberOf, hashTags } from './hash-tags.ts'

/**
 * The names under which everything is stored. For a lock key K whose hash tag is T, all after one prefix:
 *
 * - `{T}k:K` string: the key's record, its holders and its last unclean end
 * - `{T}q:K` sorted set: the ids of those who wait, by rank
 * - `{T}w:K` hash: their records, by id
 * - `{T}fence` string: the last fence of all keys with this tag
 * - `{T}birth` string: since when they have been kept, once somebody has asked; these two are the only names that stay
 *
 * and the channels `notifications:CLIENT`, one a client.
 */
export class Keyspace {
  readonly prefix: string
  /** Where the hash tag ends in every name, in bytes. */
  readonly tagEnd: number
  /** What the names of records begin with, by hash tag. */
  readonly #starts: readonly string[]
  readonly #fences: readonly string[]

  constructor(prefix: string) {
    if (/[{}]/.test(prefix)) {
      throw new LeaseholdError('INVALID', `The prefix ${JSON.stringify(prefix)} has braces. They are for hash tags.`)
    }
    if (prefix.includes('\n')) {
      throw new LeaseholdError('INVALID', `The prefix ${JSON.stringify(prefix)} has more than one line.`)
    }
    this.prefix = prefix
    this.tagEnd = Buffer.byteLength(prefix) + (hashTags[0] as string).length + 2
    this.#starts = hashTags.map((tag) => `${prefix}{${tag}}k:`)
    this.#fences = hashTags.map((tag) => `${prefix}{${tag}}fence`)
  }

  record(key: string): string {
    return this.recordOf(hashTagNumberOf(key), key)
  }

  /** The same for one whose hash tag is known. */
  recordOf(tag: number, key: string): string {
    return (this.#starts[tag] as string) + key
  }

  /** The fence counter of a hash tag. */
  fenceOf(tag: number): string {
    return this.#fences[tag] as string
  }

  /** Where it stands since when the data of a hash tag has been kept. */
  birthOf(tag: number): string {
    return `${this.prefix}{${hashTags[tag]}}birth`
  }

  channel(client: string): string {
    return `${this.prefix}news:${client}`
  }

  /** The lock key of a record's name. */
  keyOf(record: string): string {
    return record.slice(this.prefix.length + (hashTags[0] as string).length + 4)
  }

  /** Whether it is the name of a record, of a key that begins with `keyPrefix`. */
  isRecord(name: unknown, keyPrefix: string): name is string {
    if (typeof name !== 'string') return false
    const key = this.keyOf(name)
    return key.startsWith(keyPrefix) && name === this.record(key)
  }

  /** Matches the records of keys that begin with `keyPrefix`, to the letter. */
  pattern(keyPrefix: string): string {
    return `${literally(this.prefix)}{???}k:${literally(keyPrefix)}*`
  }
}

/** Text as a pattern that matches nothing else. */
function literally(text: string): string {
  return text.replaceAll(/[*?[\]\\^-]/g, String.raw`\$&`)
}
