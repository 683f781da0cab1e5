import { credentialsForTests, S3Server } from '../../../test/support/s3-server.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { processesMax, type ChaosStore } from '../store.ts'

/** One server, which keeps its objects in memory: each client has a proxy to it. */
export async function s3Chaos(): Promise<ChaosStore> {
  const server = await S3Server.start()
  const proxies = await Promise.all(Array.from({ length: processesMax }, () => TcpProxy.start(server)))
  const at = (port: number): string => `s3://${server.bucket}/chaos?endpoint=http://127.0.0.1:${port}`
  const { accessKeyId, secretAccessKey } = credentialsForTests
  // The process that looks at the store at the end reads them, too.
  const environment = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }
  Object.assign(process.env, environment)
  return {
    url: (slot) => at(proxies[slot]?.port ?? server.port),
    directUrl: at(server.port),
    proxies,
    environment,
    // Fences of an object that was lost begin at the clock of the next client.
    keepsClocks: true,
    ttlMs: 4000,
    faults: {
      'the server frozen': {
        begin: () => {
          server.freeze()
          return () => server.thaw()
        },
      },
      'the server killed, and back without its objects': {
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
