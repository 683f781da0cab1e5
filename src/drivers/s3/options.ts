import { checkOptions, withDefaults, type OptionNames } from '../../core/contract/option-names.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { environmentVariable } from '../../core/machine/runtime.ts'
import type { Duration } from '../../core/time/duration.ts'
import { decodedPart, urlParameters } from '../kit/url.ts'
import type { S3Fetch, S3Like } from './client.ts'
import { normalPrefix, prefixFault } from './object-names.ts'
import type { S3Credentials } from './signature.ts'

/** The options of `s3`. */
export interface S3Options {
  /** The bucket; in a URL: its host. */
  readonly bucket?: string | undefined
  /**
   * What the names of all objects begin with; in a URL: its path.
   *
   * @default 'leasehold/'
   */
  readonly prefix?: string | undefined
  /**
   * The bucket's region.
   *
   * @default AWS_REGION or AWS_DEFAULT_REGION; with an endpoint of another store 'us-east-1'
   */
  readonly region?: string | undefined
  /**
   * The address of a store other than AWS, such as `https://minio.example:9000`.
   *
   * @default AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or else that of AWS in the region
   */
  readonly endpoint?: string | undefined
  /**
   * True: the bucket is in the path of a URL, and not in its host.
   *
   * @default true with an endpoint, and for a bucket with a dot in its name
   */
  readonly pathStyle?: boolean | undefined
  /**
   * Credentials, or a function that gives them and is asked again before they end.
   *
   * @default AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN
   */
  readonly credentials?: S3Credentials | (() => Promise<S3Credentials>) | undefined
  /** An `S3` of `@aws-sdk/client-s3`, which stays yours, in place of region, endpoint, pathStyle, credentials and fetch. */
  readonly client?: S3Like | undefined
  /**
   * The `fetch` to use, such as one with a proxy.
   *
   * @default the global one
   */
  readonly fetch?: S3Fetch | undefined
  /**
   * How long a lease lasts where the caller names no ttl.
   *
   * @default '30s'
   */
  readonly ttl?: Duration | undefined
  /**
   * How often such a lease is renewed.
   *
   * @default a third of `ttl`
   */
  readonly heartbeat?: Duration | undefined
  /**
   * The least pause between two readings of a key that is waited for.
   *
   * @default '200ms'
   */
  readonly waitMin?: Duration | undefined
  /**
   * The longest such pause; a twelfth of the ttl at most.
   *
   * @default '2s'
   */
  readonly waitMax?: Duration | undefined
  /**
   * How many keys a second this process reads at most for all that waits: each reading costs.
   *
   * @default 5
   */
  readonly readsPerSecond?: number | undefined
  /**
   * How many calls to S3 may be under way at once.
   *
   * @default 50
   */
  readonly callsMax?: number | undefined
  /**
   * How long one `send` may take, retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default '5s'
   */
  readonly timeout?: Duration | undefined
}

const optionNames: OptionNames<S3Options> = {
  bucket: true,
  prefix: true,
  region: true,
  endpoint: true,
  pathStyle: true,
  credentials: true,
  client: true,
  fetch: true,
  ttl: true,
  heartbeat: true,
  waitMin: true,
  waitMax: true,
  readsPerSecond: true,
  callsMax: true,
  timeout: true,
}

/** The options, with what the URL says where they are silent. */
export function s3Options(
  source: string | S3Options,
  given: S3Options,
): S3Options & { readonly bucket: string; readonly prefix: string } {
  const options = typeof source === 'string' ? withDefaults<S3Options>(parseS3Url(source), given) : source
  checkOptions(options, optionNames, 's3')
  const { bucket, prefix = 'leasehold/' } = options
  if (typeof bucket !== 'string' || !/^[\w.-]{1,255}$/.test(bucket) || /^\.+$/.test(bucket)) {
    throw new LeaseholdError('INVALID', 'Name the bucket: letters, digits, dots and hyphens.')
  }
  const fault = typeof prefix === 'string' ? prefixFault(prefix) : 'must be text'
  if (fault !== undefined) throw new LeaseholdError('INVALID', `The prefix ${JSON.stringify(prefix)} ${fault}.`)
  return { ...options, bucket, prefix: normalPrefix(prefix) }
}

/** Reads `s3://BUCKET/PREFIX?region=…&endpoint=…&pathStyle=…`. */
function parseS3Url(url: string): S3Options {
  const [, bucket, path = '', query = ''] = /^s3:\/\/([^@/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/s.exec(url) ?? []
  if (bucket === undefined) throw invalidUrl()
  const parameters = urlParameters(query, { region: true, endpoint: true, pathStyle: true }, 'an S3 URL', invalidUrl)
  const pathStyle = parameters.get('pathStyle')
  if (pathStyle !== undefined && pathStyle !== 'true' && pathStyle !== 'false') throw invalidUrl()
  return {
    bucket,
    ...(path !== '' && { prefix: decodedPart(path, invalidUrl) }),
    ...(parameters.has('region') && { region: parameters.get('region') }),
    ...(parameters.has('endpoint') && { endpoint: parameters.get('endpoint') }),
    ...(pathStyle !== undefined && { pathStyle: pathStyle === 'true' }),
  }
}

/** Says nothing of the URL itself: somebody may have put a secret into it. */
function invalidUrl(): LeaseholdError {
  return new LeaseholdError(
    'INVALID',
    'This is not the URL of a bucket. Use s3://BUCKET/PREFIX?region=REGION or s3://BUCKET?endpoint=https://HOST; credentials come from ' +
      'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, never from the URL.',
  )
}

/** Where requests go: the origin, and the bucket where it is in the path. */
export function bucketAddress({ bucket, ...options }: S3Options & { readonly bucket: string }): {
  readonly base: string
  readonly region: string
} {
  const endpoint =
    options.endpoint ??
    (environmentVariable('AWS_ENDPOINT_URL_S3') || environmentVariable('AWS_ENDPOINT_URL') || undefined)
  const named =
    options.region ?? (environmentVariable('AWS_REGION') || environmentVariable('AWS_DEFAULT_REGION') || undefined)
  const isR2 = endpoint?.includes('.r2.cloudflarestorage.com') === true
  const region = named ?? (endpoint === undefined ? undefined : isR2 ? 'auto' : 'us-east-1')
  if (region === undefined || !/^[a-z0-9-]{1,63}$/i.test(region)) {
    throw new LeaseholdError(
      'INVALID',
      'Name the region of the bucket: s3://BUCKET?region=eu-central-1, or AWS_REGION.',
    )
  }
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'
  const origin = originOf(endpoint ?? `https://s3.${region}.${domain}`)
  const { pathStyle = endpoint !== undefined || bucket.includes('.') } = options
  if (pathStyle) return { region, base: `${origin.href.replace(/\/$/, '')}/${bucket}` }
  origin.hostname = `${bucket}.${origin.hostname}`
  return { region, base: origin.href.replace(/\/$/, '') }
}

function originOf(endpoint: string): URL {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  const isPlain =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    `${url.username}${url.password}${url.search}${url.hash}` === ''
  if (isPlain) return url
  throw new LeaseholdError(
    'INVALID',
    'The endpoint of S3 is https://HOST or http://HOST:PORT, without a login or parameters.',
  )
}
