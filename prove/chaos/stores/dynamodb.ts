import { dynamodbCredentials, DynamodbServer, dynamodbUrl } from '../../../test/support/dynamodb-server.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { processesMax, type ChaosStore } from '../store.ts'

const table = 'chaos'

/** Amazon's local server, which keeps its items in memory. Each client has a proxy to it. */
export async function dynamodbChaos(): Promise<ChaosStore> {
  const server = await DynamodbServer.start()
  const proxies = await Promise.all(Array.from({ length: processesMax }, () => TcpProxy.start(server)))
  const { accessKeyId, secretAccessKey } = dynamodbCredentials
  // The process that looks at the store at the end reads them, too.
  const environment = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }
  Object.assign(process.env, environment)
  return {
    url: (slot) => dynamodbUrl(proxies[slot]?.port ?? server.port, table),
    directUrl: dynamodbUrl(server.port, table),
    proxies,
    environment,
    // Fences of an item that was lost begin at the clock of the next client.
    keepsClocks: true,
    ttlMs: 4000,
    // The local server carries out one write at a time, and gives up those that wait.
    manyAtOnce: 5,
    faults: {
      'the server frozen': {
        begin: () => {
          server.freeze()
          return () => server.thaw()
        },
      },
      'the server killed, and back without its data': {
        forgets: true,
        begin: async () => {
          await server.kill()
          return () => server.start()
        },
      },
    },
    stop: async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await server.stop()
    },
  }
}
