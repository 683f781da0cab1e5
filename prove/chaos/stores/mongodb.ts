import { MongoReplicaSet, type MongoServer } from '../../../test/support/mongo-server.ts'
import { chosen } from '../chosen.ts'
import type { ChaosStore } from '../store.ts'

/** Three servers that keep the same data. Members name each other to clients: there is no proxy in between. */
export async function mongodbChaos(): Promise<ChaosStore> {
  const set = await MongoReplicaSet.start()
  const at = (choice: number): MongoServer => chosen(set.servers, choice)
  return {
    url: () => set.url,
    directUrl: set.url,
    proxies: [],
    // Elections take seconds.
    ttlMs: 4000,
    faults: {
      'a member killed and restarted': {
        begin: async (choice) => {
          await at(choice).kill()
          return () => at(choice).start()
        },
      },
      'the primary killed and restarted': {
        begin: async () => {
          const primary = await set.primary()
          await primary.kill()
          return async () => {
            await primary.start()
            await set.primary()
          }
        },
      },
      'the primary frozen': {
        begin: async () => {
          const primary = await set.primary()
          primary.freeze()
          return async () => {
            primary.thaw()
            await set.primary()
          }
        },
      },
    },
    stop: () => set.stop(),
  }
}
