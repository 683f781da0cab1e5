/** The store without a clock that a bucket is: one object a key, written on the condition that nobody has written since. */
import { utf8Length } from '../../core/contract/bounds.ts'
import type { ListQuery, Supports } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { claimsPerPage } from '../kit/paging.ts'
import type {
  ClocklessPolling,
  ClocklessStore,
  LoadedObserved,
  ObservedDocument,
  SwapObserved,
} from '../document/driver.ts'
import { documentBytesMaxOf } from '../document/observed/observed-document.ts'
import { objectBytesMax, type Bucket, type StoredObject } from './bucket.ts'
import { settingsWarnings } from './bucket-settings.ts'
import { keyOfName, namePrefix, objectName, probeName } from './object-names.ts'
import { s3Error, S3Fault } from './s3-fault.ts'

/** An object of ours: the document, and the key, which the name may have shortened. */
type StoredText = ObservedDocument & { readonly key?: unknown }

/** The ETag as read; undefined: there was no object. */
export type Etag = string | undefined

export interface S3StoreSetup {
  readonly bucket: () => Bucket
  readonly prefix: string
  readonly supports: Supports
  readonly polling: ClocklessPolling
  readonly timeoutMs: number
}

/** Objects are read so many at a time. */
const readAtOnce = 50
/** Listings in a row that found no claim, each of more names than the last, before a page ends. */
const fruitlessMax = 8
/** An object with a claim is longer than this and its key. */
const idleBytesMax = 150

export class S3Store implements ClocklessStore<Etag> {
  readonly clock = 'none'
  readonly name = 's3'
  readonly supports: Supports
  readonly polling: ClocklessPolling
  readonly sendTimeoutMs: number
  readonly errorOf = s3Error
  warnings: readonly string[] = []
  readonly #setup: S3StoreSetup
  #opened: Bucket | undefined

  constructor(setup: S3StoreSetup) {
    this.#setup = setup
    this.supports = setup.supports
    this.polling = setup.polling
    this.sendTimeoutMs = setup.timeoutMs
  }

  /** Proves that the bucket is there and honours both conditions: a store that ignores one would give a lock to two. */
  async open(): Promise<void> {
    const { prefix, timeoutMs } = this.#setup
    const bucket = this.#bucket
    const name = prefix + probeName
    const text = JSON.stringify({ about: 'Leasehold tries here whether this store writes on conditions.' })
    const [warnings] = await Promise.all([
      settingsWarnings(bucket, prefix, timeoutMs),
      (async () => {
        // The first of all clients creates the object: then the second try must be refused.
        const isFirst = await bucket.put(name, text, undefined, timeoutMs)
        if (isFirst && (await bucket.put(name, text, undefined, timeoutMs))) throw unsafe(bucket, 'If-None-Match')
        if (await bucket.put(name, text, noEtag, timeoutMs)) throw unsafe(bucket, 'If-Match')
        const found = await bucket.get(name, timeoutMs)
        if (found === undefined || found.etag === '') throw unsafe(bucket, 'reading what was written')
      })(),
    ])
    this.warnings = warnings
  }

  async close(): Promise<void> {
    this.#opened?.close()
  }

  /** An object may not be readable, such as one in an archive. Rejects if none is. */
  async load(keys: readonly string[], withinMs = this.#setup.timeoutMs): Promise<readonly LoadedObserved<Etag>[]> {
    const read = await Promise.allSettled(keys.map(async (key) => this.#bucket.get(await this.#nameOf(key), withinMs)))
    const failed = read.find((result) => result.status === 'rejected')
    if (failed !== undefined && read.every(({ status }) => status === 'rejected')) throw failed.reason
    return read.map((result) => {
      if (result.status === 'rejected')
        return { document: undefined, revision: undefined, error: s3Error(result.reason) }
      const object = result.value
      return { document: object && parsed(object.text), revision: object?.etag }
    })
  }

  swap(
    swaps: readonly SwapObserved<Etag>[],
    withinMs = this.#setup.timeoutMs,
  ): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]> {
    return Promise.all(
      swaps.map(async (swap) => {
        try {
          return (await this.#put(swap, withinMs)) ? 'swapped' : 'conflict'
        } catch (error) {
          return { unknown: s3Error(error) }
        }
      }),
    )
  }

  async #put({ key, document, revision }: SwapObserved<Etag>, withinMs: number): Promise<boolean> {
    const text = JSON.stringify({ key, ...document })
    if (utf8Length(text) > documentBytesMaxOf(document, objectBytesMax)) throw tooLarge()
    const deadline = performance.now() + withinMs
    const name = await this.#nameOf(key)
    if (await this.#bucket.put(name, text, revision, withinMs)) return true
    // A client or a proxy that sent the request again was refused because of its own first one: the nonce tells.
    const found = await this.#bucket.get(name, Math.max(1, deadline - performance.now()))
    return found !== undefined && parsed(found.text).nonce === document.nonce
  }

  /** Keys in the order of their objects' names. */
  async list(query: ListQuery): Promise<{
    readonly documents: readonly { readonly key: string; readonly document: ObservedDocument }[]
    readonly next?: string
  }> {
    const { key, prefix = '', after = '', limit = 100 } = query
    if (key !== undefined) {
      const [loaded] = await this.load([key])
      return { documents: loaded?.document === undefined ? [] : [{ key, document: loaded.document }] }
    }
    const { prefix: root, timeoutMs } = this.#setup
    const documents: { key: string; document: ObservedDocument }[] = []
    let startAfter = after === '' ? '' : await this.#nameOf(after)
    let claims = 0
    let fruitless = 0
    for (;;) {
      const names = {
        prefix: root + namePrefix(prefix),
        startAfter,
        limit: Math.min(1000, readAtOnce * 4 ** fruitless),
      }
      const { objects, isLast } = await this.#bucket.list(names, timeoutMs)
      if (objects.some(({ name }) => name <= startAfter)) throw unordered(this.#bucket)
      const before = documents.length
      const mayHold = objects.filter(({ name, bytes }) => !isIdle(name.slice(root.length), bytes))
      for (let from = 0; from < mayHold.length; from += readAtOnce) {
        const step = mayHold.slice(from, from + readAtOnce)
        const read = await Promise.all(step.map(({ name }) => this.#bucket.get(name, timeoutMs)))
        for (const found of read.flatMap((object) => keyed(object))) {
          if (!found.key.startsWith(prefix)) continue
          const last = documents.at(-1)
          if (last !== undefined && (documents.length >= limit || claims >= claimsPerPage))
            return { documents, next: last.key }
          documents.push(found)
          claims += Array.isArray(found.document.claims) ? found.document.claims.length : 0
        }
      }
      startAfter = objects.at(-1)?.name ?? ''
      if (isLast || startAfter === '') return { documents }
      fruitless = documents.length > before ? 0 : fruitless + 1
      const next = fruitless < fruitlessMax ? undefined : await keyOfName(startAfter.slice(root.length))
      if (next !== undefined) return { documents, next }
    }
  }

  get #bucket(): Bucket {
    return (this.#opened ??= this.#setup.bucket())
  }

  async #nameOf(key: string): Promise<string> {
    return this.#setup.prefix + (await objectName(key))
  }
}

/** Whether an object is of a key that nobody holds, as its size tells: a listing does not read it. */
function isIdle(name: string, bytes: number): boolean {
  return !name.includes('~') && bytes <= idleBytesMax + name.replaceAll(/_../g, '_').length
}

/** An ETag that no object has. */
const noEtag = '"00000000000000000000000000000000"'

/** A text that is no document is left for the rule's reader to refuse, for its key alone. */
function parsed(text: string): StoredText {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as StoredText
  } catch {
    // Damaged.
  }
  return { version: 1 } as unknown as StoredText
}

function keyed(
  object: StoredObject | undefined,
): readonly { readonly key: string; readonly document: ObservedDocument }[] {
  if (object === undefined) return []
  const document = parsed(object.text)
  return typeof document.key === 'string' ? [{ key: document.key, document }] : []
}

function unsafe({ name }: Bucket, what: string): LeaseholdError {
  const advice =
    'Two clients could hold one lock there. Use a store that supports conditional writes: docs/stores/s3.md.'
  return new LeaseholdError('UNSUPPORTED', `The store of bucket ${JSON.stringify(name)} ignores ${what}. ${advice}`)
}

/** As directory buckets are: a page could not say where it ended. */
function unordered({ name }: Bucket): LeaseholdError {
  return new LeaseholdError('UNSUPPORTED', `The store of bucket ${JSON.stringify(name)} does not list names in order.`)
}

function tooLarge(): S3Fault {
  return new S3Fault({ status: 400, code: 'EntityTooLarge', message: 'The document is too long' })
}
