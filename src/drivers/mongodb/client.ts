/** The parts of the `mongodb` package that this driver uses, by shape: the package is imported only if a URL is given. */

/** Options of one operation. */
export type OperationOptions = Readonly<Record<string, unknown>>
/** A stage of an aggregation. */
export type PipelineStage = Readonly<Record<string, unknown>>
/** A document as it is sent. */
export type BsonFields = Readonly<Record<string, unknown>>

/** A cursor over the result of an aggregation. */
export interface MongoCursor {
  toArray(): Promise<object[]>
}

/** A change stream, read by polling. */
export interface MongoChangeStream {
  /** The next change; null if there was none for a while. */
  tryNext(): Promise<object | null>
  close(): Promise<void>
  readonly closed: boolean
}

/** A `Collection` of the mongodb package. */
export interface MongoCollection {
  findOneAndUpdate(
    filter: BsonFields,
    update: PipelineStage[] | BsonFields,
    options: OperationOptions,
  ): Promise<object | null>
  updateOne(
    filter: BsonFields,
    update: PipelineStage[] | BsonFields,
    options: OperationOptions,
  ): Promise<{ readonly modifiedCount: number }>
  replaceOne(
    filter: BsonFields,
    document: BsonFields,
    options: OperationOptions,
  ): Promise<{ readonly matchedCount: number } | object>
  insertOne(document: BsonFields, options: OperationOptions): Promise<object>
  aggregate(pipeline: PipelineStage[], options: OperationOptions): MongoCursor
  createIndex(keys: Readonly<Record<string, 1>>, options: OperationOptions): Promise<string>
  watch(pipeline: PipelineStage[], options: OperationOptions): MongoChangeStream
}

/** A `Db` of the mongodb package. */
export interface MongoDatabase {
  readonly databaseName: string
  readonly readConcern?: { readonly level?: string } | undefined
  readonly writeConcern?: { readonly w?: unknown } | undefined
  collection(name: string, options?: OperationOptions): MongoCollection
  command(command: BsonFields, options?: OperationOptions): Promise<object>
}

/** A `MongoClient` of the mongodb package. */
export interface MongoClientLike {
  db(name?: string): MongoDatabase
  connect(): Promise<unknown>
  close(): Promise<void>
}

/** Where the locks are: a URL, or a `Db` or `MongoClient` that stays yours. */
export type MongoSource = string | MongoDatabase | MongoClientLike
