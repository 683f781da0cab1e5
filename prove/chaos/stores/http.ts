import { spawn } from 'node:child_process'
import path from 'node:path'
import { freePort } from '../../../test/support/free-port.ts'
import { RedisServer } from '../../../test/support/redis-server.ts'
import { ServerProcess } from '../../../test/support/server-process.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { chosen } from '../chosen.ts'
import { processesMax, type ChaosStore } from '../store.ts'

/** A `leasehold serve` in front of a store. */
class LeaseholdProcess extends ServerProcess {
  readonly port: number
  readonly #storeUrl: string

  constructor(port: number, storeUrl: string) {
    super()
    this.port = port
    this.#storeUrl = storeUrl
  }

  async start(): Promise<void> {
    const words = ['serve', '--store', this.#storeUrl, '--port', String(this.port)]
    const child = spawn(process.execPath, [path.resolve('dist/node/cli.js'), ...words], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.process = child
    let log = ''
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error(`The server ended: ${log}`)))
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        log = (log + text).slice(-4000)
        if (/serving .* on http/.test(log)) resolve()
      })
    })
  }
}

/** Two servers in front of one Redis, and proxies that send each client to one of them, or to the other when that is gone. */
export async function httpChaos(): Promise<ChaosStore> {
  const redis = await RedisServer.start({ settings: { appendonly: 'yes', appendfsync: 'always' } })
  const servers = await Promise.all(
    [0, 1].map(async () => {
      const server = new LeaseholdProcess(await freePort(), redis.url)
      await server.start()
      return server
    }),
  )
  const at = (choice: number): LeaseholdProcess => chosen(servers, choice)
  const proxies = await Promise.all(Array.from({ length: processesMax }, (_, slot) => TcpProxy.start(at(slot))))
  return {
    url: (slot) => `http://127.0.0.1:${proxies[slot]?.port ?? at(0).port}`,
    directUrl: redis.url,
    proxies,
    faults: {
      'a server killed, its clients sent to the other': {
        begin: async (choice) => {
          await at(choice).kill()
          for (const proxy of proxies) proxy.redirect(at(choice + 1))
          return async () => {
            await at(choice).start()
            for (const [slot, proxy] of proxies.entries()) proxy.redirect(at(slot))
          }
        },
      },
      'a server killed and restarted': {
        begin: async (choice) => {
          await at(choice).kill()
          return () => at(choice).start()
        },
      },
      'both servers killed and restarted': {
        begin: async () => {
          await Promise.all(servers.map((server) => server.kill()))
          return async () => void (await Promise.all(servers.map((server) => server.start())))
        },
      },
      'a server frozen': {
        begin: (choice) => {
          at(choice).freeze()
          return () => at(choice).thaw()
        },
      },
      'the store killed and restarted': {
        begin: async () => {
          await redis.kill()
          return () => redis.start()
        },
      },
      'the store frozen': {
        begin: () => {
          redis.freeze()
          return () => redis.thaw()
        },
      },
    },
    stop: async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await Promise.all(servers.map((server) => server.kill()))
      await redis.stop()
    },
  }
}
