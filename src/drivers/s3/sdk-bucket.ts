/** A bucket over a client of the AWS SDK, which brings its own credentials, proxies and retries. */
import { messageOf } from '../../core/errors.ts'
import { CallTimedOut, withTimeout } from '../kit/call-timeout.ts'
import { CallSemaphore } from '../kit/call-semaphore.ts'
import { boundedText } from './bounded-text.ts'
import {
  objectBytesMax,
  type Bucket,
  type BucketSetting,
  type ObjectPage,
  type ObjectQuery,
  type StoredObject,
} from './bucket.ts'
import type { S3Like, SdkCallOptions } from './client.ts'
import { S3Fault, strongEtag } from './s3-fault.ts'

/** What a call is given. */
type SdkInput = Readonly<Record<string, unknown>>

const settingCalls: Readonly<Record<BucketSetting, keyof S3Like>> = {
  versioning: 'getBucketVersioning',
  lifecycle: 'getBucketLifecycleConfiguration',
  'object-lock': 'getObjectLockConfiguration',
}

export class SdkBucket implements Bucket {
  readonly name: string
  readonly #client: S3Like
  readonly #calls: CallSemaphore
  readonly #underWay = new Set<AbortController>()
  #isClosed = false

  constructor(client: S3Like, bucket: string, callsMax: number) {
    this.name = bucket
    this.#client = client
    this.#calls = new CallSemaphore(callsMax)
  }

  async get(name: string, withinMs: number): Promise<StoredObject | undefined> {
    try {
      return await this.#call(async (options) => {
        const answer = (await this.#ask('getObject', { Key: name }, options)) as GotObject
        if ((answer.ContentLength ?? 0) > objectBytesMax)
          throw new Error(`The object is longer than ${objectBytesMax} bytes`)
        const text = await boundedText(bodyOf(answer), options.abortSignal)
        return { text, etag: strongEtag(answer.ETag) }
      }, withinMs)
    } catch (error) {
      if (error instanceof S3Fault && error.isMissingObject) return undefined
      throw error
    }
  }

  async put(name: string, text: string, etag: string | undefined, withinMs: number): Promise<boolean> {
    const condition = etag === undefined ? { IfNoneMatch: '*' } : { IfMatch: etag }
    const input = { Key: name, Body: text, ContentType: 'application/json', CacheControl: 'no-store', ...condition }
    try {
      await this.#call((options) => this.#ask('putObject', input, options), withinMs)
      return true
    } catch (error) {
      if (error instanceof S3Fault && (error.isConflict || error.isMissingObject)) return false
      throw error
    }
  }

  async list({ prefix, startAfter, limit }: ObjectQuery, withinMs: number): Promise<ObjectPage> {
    const input = { Prefix: prefix, StartAfter: startAfter === '' ? undefined : startAfter, MaxKeys: limit }
    const answer = (await this.#call((options) => this.#ask('listObjectsV2', input, options), withinMs)) as Listed
    const objects = (answer.Contents ?? []).map(({ Key: name = '', Size: bytes = 0 }) => ({ name, bytes }))
    return { objects, isLast: answer.IsTruncated !== true }
  }

  async setting(setting: BucketSetting, withinMs: number): Promise<string | undefined> {
    try {
      return JSON.stringify(await this.#call((options) => this.#ask(settingCalls[setting], {}, options), withinMs))
    } catch (error) {
      if (error instanceof S3Fault && error.status === 404) return undefined
      throw error
    }
  }

  close(): void {
    this.#isClosed = true
    this.#calls.close()
    for (const abort of this.#underWay) abort.abort()
  }

  #ask(call: keyof S3Like, input: SdkInput, options: SdkCallOptions): Promise<object> {
    return this.#client[call]({ Bucket: this.name, ...input } as never, options)
  }

  async #call<Answer>(work: (options: SignalOptions) => Promise<Answer>, withinMs: number): Promise<Answer> {
    const startedAt = performance.now()
    const message = (): string => `No answer within ${Math.round(withinMs)} ms`
    if (!(await this.#calls.take(withinMs))) throw new CallTimedOut(message())
    const abort = new AbortController()
    this.#underWay.add(abort)
    try {
      // The client is the user's, and would go on.
      if (this.#isClosed) throw new Error('The store was closed')
      const leftMs = Math.max(0, withinMs - (performance.now() - startedAt))
      return await withTimeout(work({ abortSignal: abort.signal }).catch(asS3Fault), leftMs, message)
    } finally {
      abort.abort()
      this.#underWay.delete(abort)
      this.#calls.giveBack()
    }
  }
}

interface GotObject {
  readonly Body?: { transformToWebStream(): ReadableStream<Uint8Array> }
  readonly ETag?: string
  readonly ContentLength?: number
}

type SignalOptions = Required<SdkCallOptions>

function bodyOf({ Body }: GotObject): ReadableStream<Uint8Array> {
  if (Body === undefined) throw new Error('The answer has no body')
  return Body.transformToWebStream()
}

interface Listed {
  readonly Contents?: readonly { readonly Key?: string; readonly Size?: number }[]
  readonly IsTruncated?: boolean
}

/** The SDK's errors carry the request, and with it what it was signed with: only what S3 said is kept. */
function asS3Fault(error: unknown): never {
  const { name, $metadata, $retryable, BucketRegion } = (error ?? {}) as SdkError
  const status = $metadata?.httpStatusCode
  if (status === undefined) throw new Error(messageOf(error))
  const code = name ?? ''
  throw new S3Fault({
    status: status === 200 ? 500 : status,
    code: code === 'Error' || code === 'UnknownError' ? '' : code,
    message: messageOf(error),
    region: BucketRegion,
    ...($retryable?.throttling === true && { retryAfterMs: 1000 }),
  })
}

interface SdkError {
  readonly name?: string
  readonly $metadata?: { readonly httpStatusCode?: number }
  readonly $retryable?: { readonly throttling?: boolean }
  readonly BucketRegion?: string
}
