/** What this driver uses of the `mongodb` package, by shape: nothing of it is imported until a URL asks for it. */

/** Options of one operation. */
export type Options = Readonly<Record<string, unknown>>
export type Stage = Readonly<Record<string, unknown>>
/** A document as it is sent. */
export type Fields = Readonly<Record<string, unknown>>

/** A cursor over what an aggregation gives. */
export interface MongoCursor {
  toArray(): Promise<object[]>
}

export interface MongoChangeStream {
  /** The next change; null if there was none for a while. */
  tryNext(): Promise<object | null>
  close(): Promise<void>
  readonly closed: boolean
}

export interface MongoCollection {
  findOneAndUpdate(filter: Fields, update: Stage[] | Fields, options: Options): Promise<object | null>
  updateOne(filter: Fields, update: Stage[] | Fields, options: Options): Promise<{ readonly modifiedCount: number }>
  replaceOne(filter: Fields, document: Fields, options: Options): Promise<{ readonly matchedCount: number } | object>
  insertOne(document: Fields, options: Options): Promise<object>
  aggregate(pipeline: Stage[], options: Options): MongoCursor
  createIndex(keys: Readonly<Record<string, 1>>, options: Options): Promise<string>
  watch(pipeline: Stage[], options: Options): MongoChangeStream
}

/** A `Db` of the mongodb package. */
export interface MongoDatabase {
  readonly databaseName: string
  readonly readConcern?: { readonly level?: string } | undefined
  readonly writeConcern?: { readonly w?: unknown } | undefined
  collection(name: string, options?: Options): MongoCollection
  command(command: Fields, options?: Options): Promise<object>
}

/** A `MongoClient` of the mongodb package. */
export interface MongoClientLike {
  db(name?: string): MongoDatabase
  connect(): Promise<unknown>
  close(): Promise<void>
}

/** Where the locks are: a URL, or a `Db` or `MongoClient` that stays yours. */
export type MongoSource = string | MongoDatabase | MongoClientLike
