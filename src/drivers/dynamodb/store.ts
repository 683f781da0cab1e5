/**
 * One item a key, with its claims as JSON, and a nonce that a conditional put compares. Reads are always consistent. DynamoDB has no
 * clock that a client can ask, so leases are counted by who watches (`document/observed/`).
 */
import { utf8Length } from '../../core/contract/bounds.ts'
import type { ListQuery, Supports } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type {
  ClocklessPolling,
  ClocklessStore,
  LoadedObserved,
  ObservedDocument,
  SwapObserved,
} from '../document/driver.ts'
import { documentBytesMaxOf } from '../document/observed/observed-document.ts'
import { CallSemaphore } from '../kit/call-semaphore.ts'
import { CallTimedOut, withTimeout } from '../kit/call-timeout.ts'
import { claimsPerPage, pageLimit } from '../kit/paging.ts'
import { PauseSet } from '../kit/pause-set.ts'
import {
  clockOffsetMs,
  connectionTo,
  type CallDynamodb,
  type DynamodbClientLike,
  type DynamodbConnection,
  type DynamodbItem,
  type DynamodbPlace,
} from './client.ts'
import { dynamodbError, isConflict, isMissingTable, noAnswerWithin, wasRepeated } from './errors.ts'
import { openTable, removalAttribute } from './table.ts'

/** What a store is made of. */
export interface DynamodbSetup {
  readonly source: DynamodbClientLike | DynamodbPlace
  readonly table: string
  readonly mayCreate: boolean
  readonly timeoutMs: number
  readonly polling: ClocklessPolling
  readonly supports: Supports
}

/** A nonce as it was read; undefined: there was no item. */
type Revision = string | undefined

/** Most calls under way at once: fewer than the sockets of the SDK's client. */
const callsMax = 32
/** Most keys of one read, as DynamoDB has it. */
const keysPerRead = 100
/** DynamoDB's limit of an item is 400 KB, with the names of its attributes. */
const documentBytesMax = 400 * 1024 - 2048
/** Most reads of a table, of 1 MB each, for one page of a listing. */
const scansPerPage = 10
const dayMs = 86_400_000
/** What reads or writes items. The others find out about the table. */
const itemCalls: ReadonlySet<string> = new Set(['BatchGetItem', 'PutItem', 'Scan'])

/** The store that `documentDriver` makes a driver of. */
export class DynamodbStore implements ClocklessStore<Revision> {
  readonly clock = 'none'
  readonly name = 'dynamodb'
  readonly supports: Supports
  readonly polling: ClocklessPolling
  readonly sendTimeoutMs: number
  warnings: readonly string[] = []
  readonly #setup: DynamodbSetup
  readonly #calls = new CallSemaphore(callsMax)
  readonly #pauses = new PauseSet()
  readonly #underWay = new Set<AbortController>()
  #connection: DynamodbConnection | undefined
  #closings = 0
  #making: Promise<void> | undefined

  constructor(setup: DynamodbSetup) {
    this.#setup = setup
    this.supports = setup.supports
    this.polling = setup.polling
    this.sendTimeoutMs = setup.timeoutMs
  }

  async open(): Promise<void> {
    const { source } = this.#setup
    const closings = this.#closings
    const connection = await connectionTo(source)
    if (this.#closings > closings) {
      if (!('send' in source)) connection.client.destroy()
      this.#refuseIfClosed()
    }
    this.#connection = connection
    try {
      await this.#openTable()
    } catch (error) {
      await this.close()
      throw error
    }
  }

  async #openTable(): Promise<void> {
    const { table, mayCreate } = this.#setup
    this.warnings = await openTable(this.#call, table, mayCreate, (ms) => this.#pauses.wait(ms))
  }

  /** Somebody has deleted the table: it is made again, empty, if it may be made. Not waited for: requests are refused meanwhile. */
  #makeAgain(): void {
    if (this.#making !== undefined || !this.#setup.mayCreate || this.#connection === undefined) return
    this.#making = this.#openTable()
      // The next request that is refused tries again.
      .catch(() => {})
      .then(() => (this.#making = undefined))
  }

  async close(): Promise<void> {
    this.#closings += 1
    for (const call of this.#underWay) call.abort()
    if (!('send' in this.#setup.source)) this.#connection?.client.destroy()
    this.#connection = undefined
    this.#calls.close()
    this.#pauses.endAll()
    await this.#making
  }

  readonly errorOf = dynamodbError

  /** Bounded in time, the wait for its turn included. */
  readonly #call: CallDynamodb = async (name, input, withinMs = Infinity) => {
    this.#refuseIfClosed()
    const limitMs = Math.min(withinMs, this.#setup.timeoutMs)
    const until = performance.now() + limitMs
    const isMyTurn = await this.#calls.take(limitMs)
    const abort = new AbortController()
    try {
      // The client may be the user's: what waited for its turn must not be sent after the end.
      const { client, command } = this.#refuseIfClosed()
      if (!isMyTurn) throw new CallTimedOut(noAnswerWithin(Math.round(limitMs)))
      this.#underWay.add(abort)
      const sent = client.send(command(name, input), { abortSignal: abort.signal })
      return await withTimeout(sent, until - performance.now(), () => noAnswerWithin(Math.round(limitMs)))
    } catch (error) {
      if (isMissingTable(error) && itemCalls.has(name)) this.#makeAgain()
      throw error
    } finally {
      // The SDK would go on trying.
      abort.abort()
      this.#underWay.delete(abort)
      if (isMyTurn) this.#calls.giveBack()
    }
  }

  #refuseIfClosed(): DynamodbConnection {
    if (this.#connection !== undefined) return this.#connection
    throw new LeaseholdError('CLOSED', 'This DynamoDB store has been closed.')
  }

  // ---- reading

  /** A hundred keys a read. Rejects if no key could be read. */
  async load(keys: readonly string[], withinMs?: number): Promise<readonly LoadedObserved<Revision>[]> {
    const reads: Promise<ReadItems>[] = []
    const from = performance.now()
    const limitMs = Math.min(withinMs ?? Infinity, this.#setup.timeoutMs)
    // A key without capacity must not take from the others the time to be written.
    const until = { answered: from + limitMs, tried: from + (keys.length > 1 ? limitMs / 2 : limitMs) }
    for (let first = 0; first < keys.length; first += keysPerRead) {
      reads.push(this.#read(keys.slice(first, first + keysPerRead), until))
    }
    const items = new Map<string, DynamodbItem>()
    const errors = new Map<string, unknown>()
    for (const [slice, result] of (await Promise.allSettled(reads)).entries()) {
      const all = keys.slice(slice * keysPerRead, (slice + 1) * keysPerRead)
      const read: ReadItems =
        result.status === 'fulfilled' ? result.value : { items: [], unread: all, error: result.reason as unknown }
      for (const item of read.items) items.set(textOf(item['k']), item)
      for (const key of read.unread) errors.set(key, read.error)
    }
    if (errors.size > 0 && errors.size === keys.length) throw errors.values().next().value
    return keys.map((key) => {
      const error = errors.get(key)
      const loaded = loadedFrom(items.get(key))
      return error === undefined ? loaded : { ...loaded, error: dynamodbError(error) }
    })
  }

  /** Asks again for what did not fit into an answer, or was throttled. */
  async #read(
    keys: readonly string[],
    until: { readonly answered: number; readonly tried: number },
  ): Promise<ReadItems> {
    const { table } = this.#setup
    const items: DynamodbItem[] = []
    let wanted: WantedItems | undefined = { Keys: keys.map((key) => ({ k: { S: key } })), ConsistentRead: true }
    let unread: readonly string[] | undefined
    for (let pauseMs = 20; ; pauseMs *= 2) {
      const asked = this.#call(
        'BatchGetItem',
        { RequestItems: { [table]: wanted } },
        until.answered - performance.now(),
      )
      let answer: BatchRead
      try {
        answer = await asked
      } catch (error) {
        if (unread === undefined) throw error
        return { items, unread, error: error instanceof CallTimedOut ? new Throttled(notAllRead) : error }
      }
      const found = Object.values(answer.Responses ?? {}).flat()
      for (const item of found) items.push(item)
      wanted = Object.values(answer.UnprocessedKeys ?? {})[0]
      unread = (wanted?.Keys ?? []).map(({ k }) => textOf(k))
      if (wanted === undefined) return { items, unread }
      if (found.length > 0) pauseMs = 20
      if (performance.now() + pauseMs >= until.tried) return { items, unread, error: new Throttled(notAllRead) }
      await this.#pauses.wait(pauseMs * (1 + Math.random()))
    }
  }

  // ---- writing

  /** One put a key: a transaction would cost twice as much, and fail as a whole where one key has changed. */
  swap(
    swaps: readonly SwapObserved<Revision>[],
    withinMs?: number,
  ): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]> {
    return Promise.all(swaps.map((swap) => this.#swap(swap, withinMs)))
  }

  async #swap(
    { key, document, revision, idle }: SwapObserved<Revision>,
    withinMs: number | undefined,
  ): Promise<'swapped' | 'conflict' | { readonly unknown: unknown }> {
    const text = JSON.stringify(document)
    const bytesMax = documentBytesMaxOf(document, documentBytesMax)
    if (text.length > bytesMax / 3 && utf8Length(text) > bytesMax) return { unknown: tooLarge(key) }
    const item = {
      k: { S: key },
      document: { S: text },
      nonce: { S: document.nonce },
      claims: { N: String(document.claims.length) },
      [removalAttribute]: { N: String(Math.ceil(this.#removeAt(document, idle) / 1000)) },
    }
    const condition =
      revision === undefined
        ? { ConditionExpression: 'attribute_not_exists(k)' }
        : { ConditionExpression: 'nonce = :read', ExpressionAttributeValues: { ':read': { S: revision } } }
    try {
      await this.#call('PutItem', { TableName: this.#setup.table, Item: item, ...condition }, withinMs)
      return 'swapped'
    } catch (error) {
      if (!isConflict(error)) return { unknown: dynamodbError(error) }
      return wasRepeated(error) ? this.#settled(key, document.nonce, withinMs) : 'conflict'
    }
  }

  /** The first copy of a put may have been carried out, and its reply lost: then the second found its own nonce. */
  async #settled(
    key: string,
    nonce: string,
    withinMs: number | undefined,
  ): Promise<'swapped' | 'conflict' | { readonly unknown: unknown }> {
    try {
      const [found] = await this.load([key], withinMs)
      return found?.revision === nonce ? 'swapped' : 'conflict'
    } catch (error) {
      return { unknown: dynamodbError(error) }
    }
  }

  /**
   * When DynamoDB may remove the item, by the clock of AWS. Far past every moment that the document is about, and never before its
   * last fence: DynamoDB goes by this time, and nobody else does.
   */
  #removeAt({ lastFence, claims, ended }: ObservedDocument, idle: boolean): number {
    const client = this.#connection?.client
    const now = Date.now() + (client === undefined ? 0 : clockOffsetMs(client))
    const from = Math.max(now, lastFence / 1000)
    if (idle) return from + 2 * dayMs
    const longest = claims.reduce((most, { ttlMs, claim }) => Math.max(most, ttlMs + claim.graceMs), ended?.keepMs ?? 0)
    return from + 2 * longest + 30 * dayMs
  }

  // ---- listing

  /** In the order of DynamoDB's hashes. A page costs a read of all items that it passes. */
  async list(query: ListQuery): Promise<{
    readonly documents: readonly { readonly key: string; readonly document: ObservedDocument }[]
    readonly next?: string
  }> {
    if (query.key !== undefined) {
      const [found] = await this.load([query.key])
      return { documents: found?.document === undefined ? [] : [{ key: query.key, document: found.document }] }
    }
    const { prefix = '', after = '' } = query
    const limit = pageLimit(query)
    const documents: { key: string; document: ObservedDocument }[] = []
    let claims = 0
    let from: object | undefined = after === '' ? undefined : { k: { S: after } }
    for (let scans = 1; ; scans += 1) {
      const page = await this.#scan(prefix, from)
      for (const item of page.Items ?? []) {
        const last = documents.at(-1)
        if (last !== undefined && (documents.length >= limit || claims >= claimsPerPage))
          return { documents, next: last.key }
        documents.push({ key: textOf(item['k']), document: documentOf(item) })
        claims += Number(item['claims']?.['N'])
      }
      from = page.LastEvaluatedKey
      if (from === undefined) return { documents }
      if (scans === scansPerPage) return { documents, next: textOf(page.LastEvaluatedKey?.['k']) }
    }
  }

  async #scan(prefix: string, from: object | undefined): Promise<Scanned> {
    const isNamed = prefix === '' ? '' : ' AND begins_with(k, :prefix)'
    return this.#call('Scan', {
      TableName: this.#setup.table,
      ConsistentRead: true,
      Limit: 1000,
      FilterExpression: `claims > :none${isNamed}`,
      ExpressionAttributeValues: { ':none': { N: '0' }, ...(prefix !== '' && { ':prefix': { S: prefix } }) },
      ...(from !== undefined && { ExclusiveStartKey: from }),
    })
  }
}

interface WantedItems {
  readonly Keys?: readonly DynamodbItem[]
  readonly ConsistentRead?: boolean
}

interface BatchRead {
  readonly Responses?: Readonly<Record<string, readonly DynamodbItem[]>>
  readonly UnprocessedKeys?: Readonly<Record<string, WantedItems>>
}

/** The items of some keys, and the keys of which it is not known whether there is one, because of an error. */
interface ReadItems {
  readonly items: readonly DynamodbItem[]
  readonly unread: readonly string[]
  readonly error?: unknown
}

const notAllRead = 'Some keys of a batch were not read in time'

interface Scanned {
  readonly Items?: readonly DynamodbItem[]
  readonly LastEvaluatedKey?: DynamodbItem
}

/** Some keys of a read had no capacity left. */
class Throttled extends Error {
  override readonly name = 'ThrottlingException'
}

function loadedFrom(item: DynamodbItem | undefined): LoadedObserved<Revision> {
  if (item === undefined) return { document: undefined, revision: undefined }
  return { document: documentOf(item), revision: textOf(item['nonce']) }
}

function documentOf(item: DynamodbItem): ObservedDocument {
  try {
    const document = JSON.parse(textOf(item['document'])) as ObservedDocument | null
    return typeof document === 'object' && document !== null ? document : damaged
  } catch {
    return damaged
  }
}

/** What the rule's reader refuses: nothing is guessed. */
const damaged = { version: 1, lastFence: Number.NaN, claims: [null], nonce: '' } as unknown as ObservedDocument

function textOf(value: Readonly<Record<string, unknown>> | undefined): string {
  const text = value?.['S']
  return typeof text === 'string' ? text : ''
}

function tooLarge(key: string): LeaseholdError {
  const text = `More claims wait for ${JSON.stringify(key)} than an item of 400 KB can hold. Nothing was changed.`
  return new LeaseholdError('UNAVAILABLE', text, { reason: 'full', key })
}
