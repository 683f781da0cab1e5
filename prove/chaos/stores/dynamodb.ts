import { DeleteTableCommand } from '@aws-sdk/client-dynamodb'
import { dynamodb } from '../../../src/drivers/dynamodb/driver.ts'
import {
  dynamodbClient,
  dynamodbCredentials,
  DynamodbServer,
  dynamodbUrl,
} from '../../../test/support/dynamodb-server.ts'
import { eventually } from '../../../test/support/eventually.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { processesMax, type ChaosStore } from '../store.ts'

const table = 'chaos'

/** Amazon's local server: each client has a proxy to it. */
export async function dynamodbChaos(): Promise<ChaosStore> {
  const server = await DynamodbServer.start({ isDurable: true })
  const client = dynamodbClient(server.port)
  const makeTable = async (): Promise<void> => {
    const driver = dynamodb(client, { table, createTable: true })
    await driver.open()
    await driver.close()
  }
  await makeTable()
  const proxies = await Promise.all(Array.from({ length: processesMax }, () => TcpProxy.start(server)))
  const { accessKeyId, secretAccessKey } = dynamodbCredentials
  // The SDK warns of Node 20.
  const environment = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, NODE_NO_WARNINGS: '1' }
  // This process looks at the store, too.
  Object.assign(process.env, environment)
  return {
    url: (slot) => dynamodbUrl(proxies[slot]?.port ?? server.port, table),
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
      'the table deleted and made again': {
        forgets: true,
        begin: async () => {
          await client.send(new DeleteTableCommand({ TableName: table })).catch(() => {})
          // The server may be frozen or gone meanwhile.
          const isMade = (): Promise<boolean> =>
            makeTable().then(
              () => true,
              () => false,
            )
          return async () => void (await eventually(isMade, 'The table'))
        },
      },
    },
    // After a table was lost, fences come from the clocks of clients.
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
