/** The collection of the locks, out of a URL, a client or a database, and what its server can do. */
import { redactedText } from '../../core/contract/redaction.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { loadFirst } from '../../core/machine/optional-package.ts'
import type { MongoClientLike, MongoCollection, MongoDatabase, MongoSource, PipelineStage } from './client.ts'
import { refuseWeakConcerns, type ReadConcern, writeConcern } from './concerns.ts'
import { withTimeout } from '../kit/call-timeout.ts'
import { isAlone, mongodbError, noAnswerInTime } from './errors.ts'

export interface MongoStoreOptions {
  readonly database?: string | undefined
  readonly collection: string
  readonly readConcern?: ReadConcern | undefined
}

/** Numbers come as numbers and undefined fields are left out, whatever options the client has. */
const collectionOptions = {
  promoteValues: true,
  promoteLongs: true,
  promoteBuffers: true,
  useBigInt64: false,
  bsonRegExp: false,
  raw: false,
  ignoreUndefined: true,
  serializeFunctions: false,
  readPreference: 'primary',
}

const closeMs = 5000

/** The wire version of MongoDB 4.4, the first that computes in projections. */
const wireVersionMin = 9

export class MongoStore {
  readonly collection: MongoCollection
  readonly database: MongoDatabase
  /** Whether changes can be watched: the server is of a replica set, or routes to a cluster. */
  readonly watchable: boolean
  /** Commands go through a router, which stamps them with its own clock. */
  readonly isRouted: boolean
  /** What tells this collection from others of the process. */
  readonly identity: { readonly of: object | string; readonly name: string }
  readonly #client: MongoClientLike | undefined
  readonly #name: string
  #readConcern: ReadConcern

  private constructor(setup: {
    readonly database: MongoDatabase
    readonly options: MongoStoreOptions
    readonly client: MongoClientLike | undefined
    readonly of: object | string
    readonly watchable: boolean
    readonly isRouted: boolean
  }) {
    const { database, options } = setup
    this.database = database
    this.collection = database.collection(options.collection, collectionOptions)
    this.watchable = setup.watchable
    this.isRouted = setup.isRouted
    this.identity = { of: setup.of, name: `${database.databaseName}.${options.collection}` }
    this.#client = setup.client
    this.#name = options.collection
    this.#readConcern = setup.watchable ? (options.readConcern ?? 'linearizable') : 'majority'
  }

  /** Connects, and refuses a database that would not be safe. A client made here is closed again if that fails. */
  static async open(source: MongoSource, options: MongoStoreOptions, timeoutMs: number): Promise<MongoStore> {
    const client = typeof source === 'string' ? await clientFor(source, timeoutMs) : undefined
    try {
      const database = databaseOf(client ?? source, options.database)
      refuseWeakConcerns(database, options.readConcern)
      const answer = database.command({ hello: 1 }, { timeoutMS: timeoutMs, readPreference: 'primary' })
      // A client that is not connected yet selects a server for as long as its own options say.
      const hello = (await withTimeout(answer, timeoutMs, noAnswerInTime)) as Hello
      if ((hello.maxWireVersion ?? 0) < wireVersionMin) {
        throw new LeaseholdError('UNSUPPORTED', 'This server is older than MongoDB 4.4. Update it.')
      }
      const isRouted = hello.msg === 'isdbgrid'
      const watchable = hello.setName !== undefined || isRouted
      return new MongoStore({ database, options, client, of: clientOf(source), watchable, isRouted })
    } catch (error) {
      await client?.close().catch(() => {})
      throw mongodbError(error)
    }
  }

  /** The result of an aggregation over the collection, as a majority has it. */
  async read(pipeline: PipelineStage[], timeoutMs: number): Promise<object[]> {
    const options = { timeoutMS: timeoutMs, readPreference: 'primary' }
    try {
      return await this.collection.aggregate(pipeline, { ...options, readConcern: this.#readConcern }).toArray()
    } catch (error) {
      if (!isAlone(error)) throw error
      // The server was of a replica set and is no longer.
      this.#readConcern = 'majority'
      return this.collection.aggregate(pipeline, { ...options, readConcern: this.#readConcern }).toArray()
    }
  }

  /** What tells this collection from another of the same name; undefined: there is none yet. */
  async collectionUuid(timeoutMs: number): Promise<string | undefined> {
    const command = { listCollections: 1, filter: { name: this.#name }, cursor: {} }
    const { cursor } = (await this.database.command(command, {
      timeoutMS: timeoutMs,
      readPreference: 'primary',
    })) as ListedCollections
    const uuid = cursor?.firstBatch?.[0]?.info?.uuid
    return uuid?.toString('hex')
  }

  /** When the process of the primary started, by its own clock, or a second later; undefined: it does not say. */
  async startedAt(timeoutMs: number): Promise<number | undefined> {
    const { topologyVersion } = (await this.database.command(
      { hello: 1 },
      { timeoutMS: timeoutMs, readPreference: 'primary' },
    )) as Hello
    // The id of a process begins with the second in which it was made.
    const second = Number.parseInt(topologyVersion?.processId?.toHexString().slice(0, 8) ?? '', 16)
    return Number.isNaN(second) ? undefined : (second + 1) * 1000
  }

  /** Closes the client if it was made here. A client that waits for a silent server is not waited for. */
  async close(): Promise<void> {
    if (this.#client === undefined) return
    await withTimeout(this.#client.close(), closeMs, noAnswerInTime).catch(() => {})
  }
}

interface ListedCollections {
  readonly cursor?: { readonly firstBatch?: readonly { readonly info?: { readonly uuid?: Buffer } }[] }
}

interface Hello {
  readonly topologyVersion?: { readonly processId?: { toHexString(): string } }
  readonly setName?: string
  readonly msg?: string
  readonly maxWireVersion?: number
}

function databaseOf(source: MongoSource | MongoClientLike, name: string | undefined): MongoDatabase {
  if (typeof source === 'object' && 'databaseName' in source) return source
  return (source as MongoClientLike).db(name)
}

/** A client makes a new `Db` at every call, so the client identifies the source. */
function clientOf(source: MongoSource): object | string {
  const { client } = source as { readonly client?: object }
  return client ?? source
}

async function clientFor(url: string, timeoutMs: number): Promise<MongoClientLike> {
  const { module } = await loadFirst('The mongodb driver', [{ name: 'mongodb', fits: ['6.11', '7'] }])
  const { MongoClient } = module as { MongoClient: new (url: string, options: object) => MongoClientLike }
  try {
    const options = { appName: 'leasehold', serverSelectionTimeoutMS: timeoutMs }
    // The URL overrides our defaults.
    const unsaid = Object.entries(options).filter(([name]) => !url.toLowerCase().includes(`${name.toLowerCase()}=`))
    return new MongoClient(url, Object.fromEntries(unsaid))
  } catch (error) {
    throw new LeaseholdError('INVALID', `This is no URL of MongoDB: ${redactedText(messageOf(error))}.`, {
      cause: error,
    })
  }
}

/** Collections that have, or are getting, their index, by the client or URL they were reached by. */
const byClient = new WeakMap<object, Set<string>>()
const byUrl = new Map<string, Set<string>>()

/**
 * Makes the TTL index by which the server collects records that are no longer of use, once for each process and collection. A
 * failure only means that nothing is collected; the next driver that opens the collection tries again.
 */
export async function ensureTtlIndex(store: MongoStore, timeoutMs: number): Promise<void> {
  const { of, name } = store.identity
  const done = doneFor(of)
  if (done.has(name)) return
  done.add(name)
  try {
    await store.collection.createIndex(
      { expiresAt: 1 },
      { name: 'expiresAt_ttl', expireAfterSeconds: 0, writeConcern, timeoutMS: timeoutMs },
    )
  } catch {
    done.delete(name)
  }
}

function doneFor(of: object | string): Set<string> {
  const known = typeof of === 'string' ? byUrl.get(of) : byClient.get(of)
  if (known !== undefined) return known
  const done = new Set<string>()
  if (typeof of === 'string') byUrl.set(of, done)
  else byClient.set(of, done)
  return done
}
