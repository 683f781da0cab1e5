/** Private NATS servers with JetStream for tests: real ones, alone or three together, on free ports, with folders of their own. */
import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'
import { ServerProcess } from './server-process.ts'

const startedWithinMs = 60_000

export interface NatsWish {
  /** Lines of the configuration, beside ours. */
  readonly settings?: string
  readonly program?: string
  /** Without JetStream. */
  readonly plain?: boolean
  /** The user with which the helpers of this class connect, where the settings ask for one. */
  readonly login?: { readonly user: string; readonly pass: string }
}

interface Node {
  readonly name: string
  readonly port: number
  readonly routePort: number
}

export class NatsServer extends ServerProcess {
  readonly port: number
  readonly name: string
  readonly #node: Node
  readonly #nodes: readonly Node[]
  readonly #wish: NatsWish
  readonly #folder = makeFolder('nats')

  private constructor(node: Node, nodes: readonly Node[], wish: NatsWish) {
    super()
    this.port = node.port
    this.name = node.name
    this.#node = node
    this.#nodes = nodes
    this.#wish = wish
  }

  /** Starts a single server. */
  static async start(wish: NatsWish = {}): Promise<NatsServer> {
    const [server] = await NatsServer.startCluster(1, wish)
    if (server === undefined) throw new Error('There is no server.')
    return server
  }

  /** Starts a cluster. */
  static async startCluster(size = 3, wish: NatsWish = {}): Promise<NatsServer[]> {
    const nodes: Node[] = []
    for (let number = 0; number < size; number += 1)
      nodes.push({ name: `node${number}`, port: await freePort(), routePort: await freePort() })
    const servers = nodes.map((node) => new NatsServer(node, nodes, wish))
    await Promise.all(servers.map((server) => server.start()))
    return servers
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  get dataFolder(): string {
    return path.join(this.#folder, 'data')
  }

  /** Starts again after `kill`, on the same port and with what is on disk. */
  async start(): Promise<void> {
    const program = this.#wish.program ?? natsProgram()
    const file = path.join(this.#folder, 'nats.conf')
    writeFileSync(file, this.#configuration())
    const started = spawn(program, ['-c', file], { stdio: 'ignore' })
    this.process = started
    const deadline = Date.now() + startedWithinMs
    while (!(await this.#isReady())) {
      if (started.exitCode !== null) throw new Error(`nats-server ended with ${started.exitCode}.`)
      if (Date.now() > deadline) throw new Error(`nats-server did not start within ${startedWithinMs} ms.`)
      await pause(20)
    }
  }

  async stop(): Promise<void> {
    await this.kill()
    removeFolder(this.#folder)
  }

  /** A connection to this server alone, for `work`. */
  async connected<Result>(work: (connection: NatsConnection) => Promise<Result>): Promise<Result> {
    const connection = await connect({
      servers: `127.0.0.1:${this.port}`,
      ignoreClusterUpdates: true,
      reconnect: false,
      timeout: 1000,
      ...this.#wish.login,
    })
    try {
      return await work(connection)
    } finally {
      await connection.close()
    }
  }

  /** One call of JetStream, with its answer. */
  api(method: string, body: object = {}): Promise<ApiAnswer> {
    return this.connected(async (connection) => {
      const message = await connection.request(`$JS.API.${method}`, JSON.stringify(body), { timeout: 5000 })
      return message.json<ApiAnswer>()
    })
  }

  #configuration(): string {
    const { name, port, routePort } = this.#node
    const { settings = '', plain = false } = this.#wish
    const routes = this.#nodes.map((node) => `nats://127.0.0.1:${node.routePort}`).join(', ')
    // A client reaches no server that its URL does not name.
    const cluster = `cluster { name: locks, listen: "127.0.0.1:${routePort}", no_advertise: true, routes: [${routes}] }`
    return [
      `server_name: ${name}`,
      `listen: "127.0.0.1:${port}"`,
      ...(plain ? [] : [`jetstream { store_dir: "${this.dataFolder}" }`]),
      ...(this.#nodes.length > 1 ? [cluster] : []),
      settings,
    ].join('\n')
  }

  /** JetStream answers, which in a cluster needs a leader. */
  async #isReady(): Promise<boolean> {
    try {
      const { error } = await this.connected(async (connection) => {
        if (this.#wish.plain === true) return {}
        const message = await connection.request('$JS.API.INFO', '', { timeout: 500 })
        return message.json<ApiAnswer>()
      })
      return error === undefined
    } catch {
      return false
    }
  }
}

function natsProgram(): string {
  return process.env['NATS_SERVER'] ?? needProgram('nats-server', ['nats-server'], ['/usr/sbin'])
}

/** A nats-server whose replicated streams can be relied on, from 2.11 on: the system's, or one that is fetched once. */
export function replicatingNats(): string {
  const program = natsProgram()
  const [, minor = 0] = execFileSync(program, ['--version'], { encoding: 'utf8' }).split('.').map(Number)
  if (minor >= 11) return program
  return execFileSync(process.execPath, ['scripts/nats-program.mjs'], { encoding: 'utf8' }).trim()
}

/** An answer of JetStream: whatever the call is about. */
export interface ApiAnswer {
  readonly error?: { readonly err_code: number; readonly description: string }
  readonly created?: string
  readonly message?: { readonly hdrs?: string }
  readonly config?: Readonly<Record<string, unknown>>
  readonly state?: { readonly messages: number; readonly last_seq: number }
  readonly cluster?: { readonly leader?: string }
}

/** The URL of all these servers, in this order. */
export function natsUrlOf(servers: readonly { readonly port: number }[]): string {
  return `nats://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
}
