/**
 * Locks in a DynamoDB table: one item a key, written by conditional puts.
 *
 * DynamoDB has no clock to ask, so each process counts leases by its own monotonic clock from when it first saw them, and waiters read
 * their keys within a budget that is documented in money. Decisions 125 and 132.
 */
import type { LockDriver } from '../../core/contract/driver.ts'
import { checkOptions, withDefaults, type OptionNames } from '../../core/contract/option-names.ts'
import { fullSupport, leaseDefaults } from '../../core/contract/supports.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { parseDuration, timerMs, type Duration } from '../../core/time/duration.ts'
import { documentDriver, type ClocklessPolling } from '../document/driver.ts'
import { urlParameters } from '../kit/url.ts'
import type { DynamodbClientLike, DynamodbPlace } from './client.ts'
import { DynamodbStore } from './store.ts'

export type { DynamodbClientLike } from './client.ts'

/** The options of `dynamodb`. */
export interface DynamodbOptions {
  /**
   * With a client: the table of the locks.
   *
   * @default 'leasehold'
   */
  readonly table?: string | undefined
  /**
   * Makes the table if there is none, paid by request, with its time to live; in a URL: `?createTable=true`.
   *
   * @default false
   */
  readonly createTable?: boolean | undefined
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
   * The least pause between two reads of a key that is waited for.
   *
   * @default '100ms'
   */
  readonly waitMin?: Duration | undefined
  /**
   * The longest such pause, or a twelfth of the ttl if that is less.
   *
   * @default '1s'
   */
  readonly waitMax?: Duration | undefined
  /**
   * How many keys a second this driver reads for all claims that wait or hold: the most that watching costs.
   *
   * @default 10
   */
  readonly readsPerSecond?: number | undefined
  /**
   * How long one call of DynamoDB may take, the SDK's retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default '5s'
   */
  readonly timeout?: Duration | undefined
}

const dynamodbNames: OptionNames<DynamodbOptions> = {
  table: true,
  createTable: true,
  ttl: true,
  heartbeat: true,
  waitMin: true,
  waitMax: true,
  readsPerSecond: true,
  timeout: true,
}

const hints = {
  prefix: "It is 'table' here.",
  region: 'Set it on the client, or write dynamodb://TABLE?region=REGION.',
  endpoint: 'Set it on the client, or write dynamodb://TABLE?endpoint=URL.',
}

/** Where the locks are: `dynamodb://TABLE?region=REGION`, or a `DynamoDBClient` that stays yours. */
export type DynamodbSource = string | DynamodbClientLike

/**
 * A lock store in DynamoDB: a URL, or a `DynamoDBClient` of `@aws-sdk/client-dynamodb`.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { dynamodb } from 'leasehold/dynamodb'
 * import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
 *
 * const client = new DynamoDBClient({ region: 'eu-central-1' })
 * await using locks = await createLocks({ driver: dynamodb(client, { table: 'locks' }) })
 * ```
 */
export function dynamodb(source: DynamodbSource, options: DynamodbOptions = {}): LockDriver {
  return documentDriver(dynamodbStore(source, options))
}

/** The store behind the driver. @internal */
export function dynamodbStore(source: DynamodbSource, options: DynamodbOptions = {}): DynamodbStore {
  checkOptions(options, dynamodbNames, 'dynamodb', hints)
  const fromUrl = typeof source === 'string' ? parseDynamodbUrl(source) : undefined
  if (fromUrl !== undefined && options.table !== undefined) {
    throw new LeaseholdError('INVALID', 'A URL of DynamoDB names the table: leave out the option table.')
  }
  if (fromUrl === undefined && typeof (source as DynamodbClientLike | undefined)?.send !== 'function') {
    throw new LeaseholdError('INVALID', 'dynamodb takes a URL, or a DynamoDBClient of @aws-sdk/client-dynamodb.')
  }
  const wanted = withDefaults<DynamodbOptions>(fromUrl?.options ?? {}, options)
  const { table = 'leasehold' } = wanted
  if (typeof table !== 'string' || !tableForm.test(table)) {
    throw new LeaseholdError('INVALID', 'table is a name of 3 to 255 letters, digits and _.-, or the ARN of a table.')
  }
  return new DynamodbStore({
    source: fromUrl?.place ?? (source as DynamodbClientLike),
    table,
    mayCreate: wanted.createTable ?? false,
    timeoutMs: timerMs(wanted.timeout ?? 5000, 'timeout'),
    polling: pollingOf(wanted),
    supports: { ...fullSupport, ...leaseDefaults(wanted) },
  })
}

const tableForm = /^(?:arn:aws[\w-]*:dynamodb:[\w-]+:\d{12}:table\/)?[\w.-]{3,255}$/

function pollingOf({ waitMin, waitMax, readsPerSecond: keysPerSecondMax = 10 }: DynamodbOptions): ClocklessPolling {
  const minMs = timerMs(waitMin ?? 100, 'waitMin')
  const maxMs = timerMs(waitMax ?? Math.max(1000, minMs), 'waitMax')
  if (minMs > maxMs) throw new LeaseholdError('INVALID', `waitMin is ${minMs} ms, more than waitMax, ${maxMs} ms.`)
  if (keysPerSecondMax >= 0.1 && keysPerSecondMax <= 100_000) return { minMs, maxMs, keysPerSecondMax }
  throw new LeaseholdError('INVALID', `readsPerSecond is ${String(keysPerSecondMax)}. Use a number from 0.1 to 100000.`)
}

/** What a URL says. */
interface DynamodbAddress {
  readonly place: DynamodbPlace
  readonly options: DynamodbOptions
}

const parameterNames = {
  region: true,
  endpoint: true,
  createTable: true,
  waitMin: true,
  waitMax: true,
  readsPerSecond: true,
  timeout: true,
}

/** `dynamodb://TABLE?region=REGION&endpoint=URL&createTable=true`. Credentials do not belong there. @internal */
export function parseDynamodbUrl(url: string): DynamodbAddress {
  const [, table = '', query = ''] = /^dynamodb:\/\/([\w.-]{3,255})\/?(?:\?(.*))?$/s.exec(url) ?? []
  if (table === '') throw notAnAddress()
  const parameters = urlParameters(query, parameterNames, 'a DynamoDB URL', notAnAddress)
  const endpoint = parameters.get('endpoint')
  if (endpoint !== undefined && !(/^https?:\/\//.test(endpoint) && URL.canParse(endpoint))) {
    throw new LeaseholdError(
      'INVALID',
      'endpoint in the URL of DynamoDB is a URL that begins with http:// or https://.',
    )
  }
  const region = parameters.get('region')
  if (region !== undefined && !/^[a-z0-9-]{1,63}$/i.test(region)) {
    throw new LeaseholdError('INVALID', 'region in the URL of DynamoDB is a name such as eu-central-1.')
  }
  const createTable = parameters.get('createTable')
  if (createTable !== undefined && createTable !== 'true' && createTable !== 'false') {
    throw new LeaseholdError('INVALID', 'createTable in the URL of DynamoDB is true or false.')
  }
  const durationOf = (name: string): Duration | undefined => {
    const text = parameters.get(name)
    return text === undefined ? undefined : /^\d+$/.test(text) ? Number(text) : parseDuration(text, name)
  }
  const reads = parameters.get('readsPerSecond')
  return {
    place: { region, endpoint },
    options: {
      table,
      createTable: createTable === undefined ? undefined : createTable === 'true',
      waitMin: durationOf('waitMin'),
      waitMax: durationOf('waitMax'),
      readsPerSecond: reads === undefined ? undefined : Number(reads || Number.NaN),
      timeout: durationOf('timeout'),
    },
  }
}

function notAnAddress(): LeaseholdError {
  const text =
    'This is no URL of DynamoDB. Write dynamodb://TABLE?region=REGION, without credentials: the AWS SDK finds them.'
  return new LeaseholdError('INVALID', text)
}
