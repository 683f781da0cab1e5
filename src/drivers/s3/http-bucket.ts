/** A bucket over `fetch`, with requests signed here: nothing to install, and it runs where `fetch` does. */
import { messageOf } from '../../core/errors.ts'
import { timeLimit } from '../../core/time/bounded.ts'
import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import { CallSemaphore } from '../kit/call-semaphore.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { PauseSet } from '../kit/pause-set.ts'
import { readFault, readListing } from './answers.ts'
import { boundedText } from './bounded-text.ts'
import { type Bucket, type BucketSetting, type ObjectPage, type ObjectQuery, type StoredObject } from './bucket.ts'
import type { S3Fetch } from './client.ts'
import { S3Fault, strongEtag } from './s3-fault.ts'
import { encodedText, signedHeaders, type S3Credentials } from './signature.ts'

/** Where a bucket is, and how to sign. */
export interface HttpBucketSetup {
  readonly bucket: string
  readonly region: string
  /** The origin, and the bucket where it is part of the path; no slash at the end. */
  readonly base: string
  readonly credentials: () => Promise<S3Credentials>
  /** The credentials were refused: they must not be given again. */
  readonly forget: () => void
  readonly fetch: S3Fetch
  readonly callsMax: number
}

interface Call {
  readonly method: 'GET' | 'PUT'
  readonly name?: string
  readonly query?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

interface Reply {
  readonly text: string
  readonly etag: string
}

/** What a proxy says beyond this is not believed. */
const retryAfterMaxMs = 600_000
/** S3 asks for a pause now and then: a few tries, within the time of the call. */
const pauses: Backoff = { attempts: 4, minMs: 100, maxMs: 2000, factor: 2, jitter: 0.5 }

export class HttpBucket implements Bucket {
  readonly name: string
  readonly #setup: HttpBucketSetup
  readonly #calls: CallSemaphore
  readonly #waits = new PauseSet()
  readonly #underWay = new Set<AbortController>()
  #isClosed = false

  constructor(setup: HttpBucketSetup) {
    this.name = setup.bucket
    this.#setup = setup
    this.#calls = new CallSemaphore(setup.callsMax)
  }

  async get(name: string, withinMs: number): Promise<StoredObject | undefined> {
    try {
      return await this.#call({ method: 'GET', name }, withinMs)
    } catch (error) {
      if (error instanceof S3Fault && error.isMissingObject) return undefined
      throw error
    }
  }

  async put(name: string, body: string, etag: string | undefined, withinMs: number): Promise<boolean> {
    const condition = etag === undefined ? { 'if-none-match': '*' } : { 'if-match': etag }
    // No cache on the way, nor a browser's, may answer an older copy.
    const headers = { ...condition, 'cache-control': 'no-store', 'content-type': 'application/json' }
    try {
      await this.#call({ method: 'PUT', name, headers, body }, withinMs)
      return true
    } catch (error) {
      if (error instanceof S3Fault && (error.isConflict || error.isMissingObject)) return false
      throw error
    }
  }

  async list({ prefix, startAfter, limit }: ObjectQuery, withinMs: number): Promise<ObjectPage> {
    const parameters = {
      'encoding-type': 'url',
      'list-type': '2',
      'max-keys': String(limit),
      prefix,
      ...(startAfter !== '' && { 'start-after': startAfter }),
    }
    const query = Object.entries(parameters).map(([name, value]) => `${name}=${encodedText(value)}`)
    return readListing((await this.#call({ method: 'GET', query: query.join('&') }, withinMs)).text)
  }

  async setting(setting: BucketSetting, withinMs: number): Promise<string | undefined> {
    try {
      return (await this.#call({ method: 'GET', query: `${setting}=` }, withinMs)).text
    } catch (error) {
      if (error instanceof S3Fault && error.status === 404) return undefined
      throw error
    }
  }

  close(): void {
    this.#isClosed = true
    this.#calls.close()
    this.#waits.endAll()
    for (const abort of this.#underWay) abort.abort(closed())
  }

  async #call(call: Call, withinMs: number): Promise<Reply> {
    const deadline = performance.now() + withinMs
    const leftMs = (): number => Math.max(0, deadline - performance.now())
    if (!(await this.#calls.take(withinMs))) throw new CallTimedOut(`No answer within ${Math.round(withinMs)} ms`)
    try {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await this.#attempt(call, leftMs())
        } catch (error) {
          const pause = pauseBefore(error, attempt)
          if (pause === undefined || pause >= leftMs()) throw error
          if (pause === 0) this.#setup.forget()
          await this.#waits.wait(pause)
        }
      }
    } finally {
      this.#calls.giveBack()
    }
  }

  async #attempt(call: Call, withinMs: number): Promise<Reply> {
    if (this.#isClosed) throw closed()
    const abort = new AbortController()
    this.#underWay.add(abort)
    const limit = timeLimit(withinMs, () => {
      abort.abort(new CallTimedOut(`No answer within ${Math.round(withinMs)} ms`))
    })
    try {
      return await until(abort.signal, this.#exchange(call, abort.signal))
    } catch (error) {
      // A runtime may say only that the request was aborted.
      throw abort.signal.aborted ? abort.signal.reason : error
    } finally {
      limit.cancel()
      this.#underWay.delete(abort)
    }
  }

  async #exchange({ method, name, query, headers = {}, body = '' }: Call, signal: AbortSignal): Promise<Reply> {
    const { base, region, credentials, fetch } = this.#setup
    const path = name === undefined ? '' : name.split('/').map(encodedText).join('/')
    const url = new URL(`${base}/${path}${query === undefined ? '' : `?${query}`}`)
    const terms = { region, date: new Date() }
    const signed = await signedHeaders({ method, url, headers, body }, await credentials(), terms)
    const init = { method, headers: signed, redirect: 'manual', signal } as const
    const response = await fetch(url.href, method === 'PUT' ? { ...init, body } : init).catch(asNetworkError)
    const text = response.body === null ? '' : await boundedText(response.body as ReadableStream<Uint8Array>, signal)
    if (response.status !== 200) throw faultOf(response, text)
    const etag = response.headers.get('etag')
    return { text, etag: name === undefined ? '' : strongEtag(etag) }
  }
}

/** How long to wait before the next try; 0: at once, with other credentials; undefined: another try makes no sense. */
function pauseBefore(error: unknown, attempt: number): number | undefined {
  if (!(error instanceof S3Fault) || attempt >= pauses.attempts) return undefined
  if (attempt === 1 && (error.code === 'ExpiredToken' || error.code === 'TokenRefreshRequired')) return 0
  if (!error.isPassing) return undefined
  // Everybody else was told the same: a pause of one's own in any case.
  return Math.max(error.retryAfterMs ?? 0, pauseMs(pauses, attempt, Math.random()))
}

function closed(): Error {
  return new Error('The store was closed')
}

/** What `fetch` says of a failure is in the cause. */
function asNetworkError(error: unknown): never {
  const { cause } = (error ?? {}) as { readonly cause?: unknown }
  throw cause === undefined ? error : new Error(messageOf(cause) || messageOf(error), { cause })
}

function faultOf({ status, headers }: Response, text: string): S3Fault {
  const { code, message, region } = readFault(text)
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  return new S3Fault({
    status,
    code,
    message: message === '' ? 'S3 gave no reason' : message,
    region: headers.get('x-amz-bucket-region') ?? region,
    ...(seconds >= 0 && { retryAfterMs: Math.min(seconds * 1000, retryAfterMaxMs) }),
  })
}

/** Settles as `work` does, or rejects once the signal aborts, whether or not `work` heeds it. */
function until<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    work.then(resolve, reject)
  })
}
