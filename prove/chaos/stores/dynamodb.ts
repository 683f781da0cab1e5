import { dynamodb } from '../../../src/drivers/dynamodb/driver.ts'
import {
  deleteItems,
  dynamodbClient,
  dynamodbCredentials,
  DynamodbServer,
  dynamodbUrl,
} from '../../../test/support/dynamodb-server.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { processesMax, type ChaosStore } from '../store.ts'

const table = 'chaos'

/** Amazon's local server: each client has a proxy to it. */
export async function dynamodbChaos(): Promise<ChaosStore> {
  const server = await DynamodbServer.start({ isDurable: true })
  const client = dynamodbClient(server.port)
  const driver = dynamodb(client, { table, createTable: true })
  await driver.open()
  await driver.close()
  const proxies = await Promise.all(Array.from({ length: processesMax }, () => TcpProxy.start(server)))
  const { accessKeyId, secretAccessKey } = dynamodbCredentials
  // The SDK warns of Node 20.
  const environment = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, NODE_NO_WARNINGS: '1' }
  // This process looks at the store, too.
  Object.assign(process.env, environment)
  return {
    // Those who wait are to be served within a minute, after each round.
    url: (slot) =>
      `${dynamodbUrl(proxies[slot]?.port ?? server.port, table)}&waitMin=20&waitMax=100&readsPerSecond=500`,
    directUrl: dynamodbUrl(server.port, table),
    proxies,
    faults: {
      'killed and restarted': {
        begin: async () => {
          await server.kill()
          return () => server.start()
        },
      },
      frozen: {
        begin: () => {
          server.freeze()
          return () => server.thaw()
        },
      },
      'all items deleted': {
        forgets: true,
        begin: async () => {
          // The server may be frozen or gone meanwhile: then nothing is lost.
          await deleteItems(client, table).catch(() => {})
          return () => {}
        },
      },
    },
    // After items were lost, fences come from the clocks of clients.
    keepsClocks: true,
    environment,
    // A crash is noticed a ttl after it, and the local server takes its time.
    ttlMs: 4000,
    async stop() {
      client.destroy()
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await server.stop()
    },
  }
}
