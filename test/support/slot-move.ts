import type { ClusterNode, RedisCluster } from './redis-cluster.ts'

/** One slot of a cluster on its way from the node that has it to another, key by key, as a resharding does it. */
export class SlotMove {
  readonly #cluster: RedisCluster
  readonly #slot: string
  readonly #from: ClusterNode
  readonly #to: ClusterNode
  #over = false

  private constructor(cluster: RedisCluster, slot: string, from: ClusterNode, to: ClusterNode) {
    this.#cluster = cluster
    this.#slot = slot
    this.#from = from
    this.#to = to
  }

  /** Marks the slot as migrating: new keys are created on the new node, existing ones stay on the old one. */
  static async begin(cluster: RedisCluster, name: string): Promise<SlotMove> {
    const slot = await cluster.slotOf(name)
    const nodes = await cluster.nodes()
    const from = nodes.find((node) => node.has(slot))
    const to = nodes.find((node) => node !== from)
    if (from === undefined || to === undefined) throw new Error(`No node has slot ${slot}.`)
    await to.server.cli('CLUSTER', 'SETSLOT', String(slot), 'IMPORTING', from.id)
    await from.server.cli('CLUSTER', 'SETSLOT', String(slot), 'MIGRATING', to.id)
    return new SlotMove(cluster, String(slot), from, to)
  }

  /** The names that are still on the old node. */
  async names(): Promise<string[]> {
    const names = await this.#from.server.cli('CLUSTER', 'GETKEYSINSLOT', this.#slot, '1000')
    return names.split('\n').filter((name) => name !== '')
  }

  /** Moves those of the names that match. A name that the new node has too is an error, as it is to redis-cli. */
  async move(which: RegExp): Promise<void> {
    const names = (await this.names()).filter((name) => which.test(name))
    if (names.length === 0) return
    const to = ['127.0.0.1', String(this.#to.server.port), '', '0', '30000']
    const answer = await this.#from.server.cli('MIGRATE', ...to, 'KEYS', ...names)
    if (answer !== 'OK' && answer !== 'NOKEY') throw new Error(`MIGRATE answered ${answer}`)
  }

  /** Moves the remaining keys and assigns the slot. Repeatable. */
  async end(): Promise<void> {
    if (this.#over) return
    this.#over = true
    while ((await this.names()).length > 0) await this.move(/^/)
    const informed = new Set([this.#to.server, this.#from.server, ...this.#cluster.servers])
    for (const server of informed) await server.cli('CLUSTER', 'SETSLOT', this.#slot, 'NODE', this.#to.id)
  }
}
