/** What the store needs of a bucket: over `fetch` (`http-bucket.ts`), or over a client of the AWS SDK (`sdk-bucket.ts`). */
export interface Bucket {
  /** What identifies the bucket in messages. */
  readonly name: string
  /** Undefined: there is no such object. */
  get(name: string, withinMs: number): Promise<StoredObject | undefined>
  /**
   * Writes if the object still has this ETag; without one, if there is no object of this name. False: somebody else was first, or this
   * request itself, if it was sent twice on its way.
   */
  put(name: string, text: string, etag: string | undefined, withinMs: number): Promise<boolean>
  /** Names with the prefix, in order, after `startAfter`. */
  list(query: ObjectQuery, withinMs: number): Promise<ObjectPage>
  /** The text of one of the bucket's settings, in XML or JSON; undefined: there is none. */
  setting(setting: BucketSetting, withinMs: number): Promise<string | undefined>
  /** Ends what is under way. */
  close(): void
}

/** An object as read. */
export interface StoredObject {
  readonly text: string
  readonly etag: string
}

/** Which objects to list. */
export interface ObjectQuery {
  readonly prefix: string
  readonly startAfter: string
  readonly limit: number
}

/** One page of a listing. */
export interface ObjectPage {
  readonly objects: readonly { readonly name: string; readonly bytes: number }[]
  readonly isLast: boolean
}

/** Settings that cost money or keep old copies. */
export type BucketSetting = 'versioning' | 'lifecycle' | 'object-lock'

/** The longest text of an object: thousands of waiters. */
export const objectBytesMax = 16 * 1_048_576
