import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { createLocks, type Lease, type Locks } from '../../src/index.ts'
import type { Costs } from './curve.ts'
import { timed, type Scene, type SceneSetup } from './scene.ts'

/** How many clients there are, and how many leases each of them holds. */
export interface ClientsLayout {
  readonly clients: (size: number) => number
  readonly leases: (size: number, client: number) => number
}

/** Longer than a heartbeat of ten seconds: each lease is renewed while it is watched. */
const heartbeatAndMoreMs = 11_000
/** This many acquires are awaited together. */
const atOnce = 500
const page = 10
/** By then the store has a request. */
const queuedWithinMs = 5
const turnName = 'turn'

interface HeldLease {
  readonly client: number
  readonly lease: Lease
}

/** Clients as programs use them, which renew what they hold. */
export class ClientsScene implements Scene {
  lost = 0
  readonly #setup: SceneSetup
  readonly #layout: ClientsLayout
  readonly #clients: Locks[] = []
  readonly #leases: HeldLease[] = []
  readonly #leasesOf: number[] = []
  #size = 0
  #acquired = 0
  /** The holder of the lock on which the clients take turns. */
  #turn: HeldLease | undefined
  #onTurn: (held: HeldLease) => void = () => {}

  constructor(setup: SceneSetup, layout: ClientsLayout) {
    this.#setup = setup
    this.#layout = layout
  }

  /** Few leases show nothing that many do not. */
  get watchMs(): number {
    return this.#size >= 1000 ? heartbeatAndMoreMs : 0
  }

  async open(): Promise<void> {}

  async fill(size: number): Promise<void> {
    this.#size = size
    const { clients, leases } = this.#layout
    for (let client = 0; client < clients(size); client += 1) {
      this.#setup.check()
      if (this.#clients[client] === undefined) await this.#addClient(client)
      let missing = leases(size, client) - (this.#leasesOf[client] ?? 0)
      for (; missing > 0; missing -= atOnce) {
        this.#setup.check()
        await Promise.all(Array.from({ length: Math.min(missing, atOnce) }, () => this.#take(client)))
        // A store in this process answers without a turn, and no timer would come to renew.
        await nextTurn()
      }
    }
  }

  rounds(): readonly (() => Promise<Costs>)[] {
    return [() => this.#pair(), () => this.#renew(), () => this.#refuse(), () => this.#list(), () => this.#passOn()]
  }

  longestAnswerMs(): undefined {
    return undefined
  }

  async close(): Promise<void> {
    // A client whose store is stopped next need not end well.
    await Promise.all(this.#clients.map((client) => client.close().catch(() => {})))
  }

  async #addClient(client: number): Promise<void> {
    const locks = await createLocks({ driver: this.#setup.driver(), namespace: 'growth' })
    locks.on('lost', () => (this.lost += 1))
    this.#clients[client] = locks
    void this.#queueForTurn(client)
    if (client === 0) await new Promise<void>((resolve) => (this.#onTurn = () => resolve()))
  }

  /** Asks for the lock on which the clients take turns. */
  async #queueForTurn(client: number): Promise<void> {
    // If it is closed while it waits, there is no turn.
    const lease = await this.#client(client)
      .acquire(turnName)
      .catch(() => undefined)
    if (lease === undefined) return
    this.#turn = { client, lease }
    this.#onTurn(this.#turn)
  }

  async #take(client: number): Promise<void> {
    const lease = await this.#client(client).acquire(`own/${this.#acquired++}`)
    this.#leases.push({ client, lease })
    this.#leasesOf[client] = (this.#leasesOf[client] ?? 0) + 1
  }

  async #pair(): Promise<Costs> {
    const client = this.#client(this.#any().client)
    let lease: Lease | undefined
    const acquire = await timed(async () => (lease = await client.acquire('free')))
    const release = await timed(async () => lease?.release())
    return { acquire, release }
  }

  async #renew(): Promise<Costs> {
    const { lease } = this.#any()
    return { renew: await timed(() => lease.renew()) }
  }

  async #refuse(): Promise<Costs> {
    const { lease } = this.#any()
    const client = this.#client(this.#clients.length - 1)
    return { refuse: await timed(() => client.tryAcquire(lease.scope)) }
  }

  async #list(): Promise<Costs> {
    const client = this.#client(this.#any().client)
    return { list: await timed(() => client.list({ prefix: 'own/', limit: page })) }
  }

  /** From the call of `release` to the `acquire` of the next client, which has been waiting. */
  async #passOn(): Promise<Costs> {
    const before = this.#turn
    if (before === undefined) throw new Error('Nobody has the turn.')
    const handOver = await timed(async () => {
      const next = new Promise<HeldLease>((resolve) => (this.#onTurn = resolve))
      const released = before.lease.release()
      if (this.#clients.length === 1) void this.#queueForTurn(0)
      await Promise.all([next, released])
    })
    if (this.#clients.length > 1) {
      void this.#queueForTurn(before.client)
      await pause(queuedWithinMs)
    }
    return { 'hand-over': handOver }
  }

  #client(client: number): Locks {
    return this.#clients.at(client) as Locks
  }

  #any(): HeldLease {
    return this.#leases.at(Math.random() * this.#leases.length) as HeldLease
  }
}
