/**
 * Locks in a bucket of S3, or of a store that speaks it and honours `If-None-Match` and `If-Match`.
 *
 * One object a key, changed by a conditional PUT around the rule of `admission.ts`. S3 has no clock to ask, so each process counts
 * leases by its own (`../document/observed`, decision 125); waiters read their keys, within a budget. Decision 131.
 */
import type { LockDriver } from '../../core/contract/driver.ts'
import { fullSupport, leaseDefaults } from '../../core/contract/supports.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { timerMs } from '../../core/time/duration.ts'
import { documentDriver, type ClocklessPolling } from '../document/driver.ts'
import type { Bucket } from './bucket.ts'
import { CredentialSource } from './credentials.ts'
import { HttpBucket } from './http-bucket.ts'
import { bucketAddress, s3Options, type S3Options } from './options.ts'
import { SdkBucket } from './sdk-bucket.ts'
import { S3Store } from './store.ts'

export type { S3Fetch, S3Like, SdkCallOptions } from './client.ts'
export type { S3Options } from './options.ts'
export type { S3Credentials } from './signature.ts'

const defaults = { waitMin: 200, waitMax: 2000, readsPerSecond: 5, callsMax: 50, timeout: 5000 } as const

/** A live claim's object is written at least this often, so a lifecycle rule of two days never meets one. */
const ttlAndGraceMaxMs = 20 * 3_600_000

/**
 * A lock store in a bucket: `s3://BUCKET/PREFIX?region=…`, or options.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { s3 } from 'leasehold/s3'
 *
 * await using locks = await createLocks({ driver: s3('s3://my-bucket/locks?region=eu-central-1') })
 * ```
 */
export function s3(source: string | S3Options, options: S3Options = {}): LockDriver {
  return documentDriver(s3Store(source, options))
}

/** The store beneath the driver. @internal */
export function s3Store(source: string | S3Options, options: S3Options = {}): S3Store {
  const checked = s3Options(source, options)
  const { bucket, client, callsMax = defaults.callsMax } = checked
  if (!Number.isSafeInteger(callsMax) || callsMax < 1) throw invalid('callsMax', 'a whole number from 1 on')
  const timeoutMs = timerMs(checked.timeout ?? defaults.timeout, 'timeout')
  const bounds = { ttlMinMs: 100, ttlMaxMs: ttlAndGraceMaxMs, ttlAndGraceMaxMs }
  const leases = leaseDefaults(checked)
  if ((leases.ttlDefaultMs ?? 0) > ttlAndGraceMaxMs) throw invalid('ttl', '20 hours at most')
  const supports = { ...fullSupport, ...leases, ...bounds, maxHold: false }
  if (client !== undefined && typeof client.putObject !== 'function') {
    throw invalid('client', 'an S3 of @aws-sdk/client-s3: make it with new S3(…), as an S3Client has no methods')
  }
  // Before the first call: a faulty address is the caller's mistake.
  const make =
    client === undefined ? httpBucket({ ...checked, callsMax }) : () => new SdkBucket(client, bucket, callsMax)
  return new S3Store({ bucket: make, prefix: checked.prefix, supports, polling: pollingOf(checked), timeoutMs })
}

function httpBucket(options: S3Options & { readonly bucket: string; readonly callsMax: number }): () => Bucket {
  const { bucket, callsMax, fetch = (url, init) => globalThis.fetch(url, init) } = options
  const { base, region } = bucketAddress(options)
  return () => {
    const source = new CredentialSource(options.credentials)
    const credentials = { credentials: () => source.current(), forget: () => source.forget() }
    return new HttpBucket({ bucket, region, base, ...credentials, fetch, callsMax })
  }
}

function pollingOf({ waitMin, waitMax, readsPerSecond = defaults.readsPerSecond }: S3Options): ClocklessPolling {
  const minMs = timerMs(waitMin ?? defaults.waitMin, 'waitMin')
  const maxMs = timerMs(waitMax ?? Math.max(defaults.waitMax, minMs), 'waitMax')
  if (minMs > maxMs) throw new LeaseholdError('INVALID', `waitMin is ${minMs} ms, more than waitMax, ${maxMs} ms.`)
  if (!(readsPerSecond > 0)) throw invalid('readsPerSecond', 'a number above 0')
  return { minMs, maxMs, keysPerSecondMax: readsPerSecond }
}

function invalid(option: string, form: string): LeaseholdError {
  return new LeaseholdError('INVALID', `${option} of s3 must be ${form}.`)
}
