import { eventually } from './eventually.ts'
import { freePortPair } from './free-port.ts'
import { RedisServer } from './redis-server.ts'

const agreedWithinMs = 60_000

/** The distance of a node's bus port, which Redis 6.2 cannot change. */
const busApart = 10_000

/** A private cluster of three primaries, with `replicas` replicas each. */
export class RedisCluster {
  readonly servers: readonly RedisServer[]

  private constructor(servers: readonly RedisServer[]) {
    this.servers = servers
  }

  static async start({
    replicas = 0,
    settings: more = {},
  }: { replicas?: number; settings?: Readonly<Record<string, string>> } = {}): Promise<RedisCluster> {
    const settings = {
      'cluster-enabled': 'yes',
      // Without replicas no node could take over: a long timeout, so that a slow machine fails no node.
      'cluster-node-timeout': replicas > 0 ? '1000' : '15000',
      // A node that a test stops takes no other with it.
      'cluster-require-full-coverage': 'no',
      'repl-diskless-sync-delay': '0',
      ...more,
    }
    const servers: RedisServer[] = []
    for (let node = 0; node < 3 + 3 * replicas; node += 1) {
      servers.push(await RedisServer.start({ port: await freePortPair(busApart), settings }))
    }
    const cluster = new RedisCluster(servers)
    const [first] = servers as [RedisServer]
    const addresses = servers.map(({ port }) => `127.0.0.1:${port}`)
    await first.cli('--cluster', 'create', ...addresses, '--cluster-replicas', String(replicas), '--cluster-yes')
    await eventually(() => cluster.#agrees(), 'The cluster’s agreement', agreedWithinMs)
    return cluster
  }

  /** Where clients may begin. */
  get startNodes(): { host: string; port: number }[] {
    return this.servers.map(({ port }) => ({ host: '127.0.0.1', port }))
  }

  async slotOf(name: string): Promise<number> {
    const [server] = this.servers as [RedisServer]
    return Number(await server.cli('CLUSTER', 'KEYSLOT', name))
  }

  async nodes(): Promise<readonly ClusterNode[]> {
    return Promise.all(this.servers.map((server) => nodeOf(server)))
  }

  /** The server that answers for a name. */
  async primaryOf(name: string): Promise<RedisServer> {
    const slot = await this.slotOf(name)
    const node = (await this.nodes()).find((each) => each.has(slot))
    if (node === undefined) throw new Error(`No node has slot ${slot}.`)
    return node.server
  }

  async empty(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.cli('FLUSHALL')))
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()))
  }

  async #agrees(): Promise<boolean> {
    const states = await Promise.all(this.servers.map((server) => server.cli('cluster', 'info')))
    return states.every((state) => state.includes('cluster_state:ok'))
  }
}

/** A node as it sees itself. */
export interface ClusterNode {
  readonly server: RedisServer
  readonly id: string
  /** Whether it has a slot, as a primary. */
  has(slot: number): boolean
}

async function nodeOf(server: RedisServer): Promise<ClusterNode> {
  const lines = (await server.cli('CLUSTER', 'NODES')).split('\n')
  const own = lines.find((line) => line.includes('myself')) ?? ''
  const [id = '', , , , , , , , ...ranges] = own.split(' ')
  // Migrating slots are in brackets.
  const slots = ranges.filter((range) => !range.startsWith('[')).map((range) => range.split('-').map(Number))
  return { server, id, has: (slot) => slots.some(([first = -1, last = first]) => first <= slot && slot <= last) }
}
