import type { Db } from 'mongodb'
import type { MongoCollection, MongoDatabase, OperationOptions } from '../../src/drivers/mongodb/client.ts'

/** A database in which something happens between a reading and whatever is made of it. */
export function afterReading(database: Db, action: () => Promise<unknown>): MongoDatabase {
  const collection = (name: string, options?: OperationOptions): MongoCollection => {
    const real = database.collection(name, options) as unknown as MongoCollection
    return {
      findOneAndUpdate: (...args) => real.findOneAndUpdate(...args),
      updateOne: (...args) => real.updateOne(...args),
      replaceOne: (...args) => real.replaceOne(...args),
      insertOne: (...args) => real.insertOne(...args),
      createIndex: (...args) => real.createIndex(...args),
      watch: (...args) => real.watch(...args),
      aggregate: (...args) => ({
        async toArray() {
          const found = await real.aggregate(...args).toArray()
          await action()
          return found
        },
      }),
    }
  }
  const command: MongoDatabase['command'] = (asked, options) => database.command(asked, options)
  return { databaseName: database.databaseName, collection, command }
}
