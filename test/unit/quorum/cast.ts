import type { Claim, LockDriver, Request, ClaimStatus } from '../../../src/core/contract/driver.ts'
import { quorum, type QuorumOptions } from '../../../src/drivers/quorum/driver.ts'
import { NodeStore, type Weather } from './node-store.ts'
import { World } from '../../../src/testing/simulation/world.ts'

const key = 'default/named:x'

/** A quorum of stores in a world of its own, with short words for what tests ask of it. */
export class Cast {
  readonly world = new World()
  readonly stores: readonly NodeStore[]
  readonly #options: QuorumOptions

  /** `aheadMs`: by how much the wall clock of each store, and so its fences, are ahead. */
  constructor(aheadMs: readonly number[] = [0, 0, 0], options: QuorumOptions = {}) {
    this.stores = aheadMs.map((ahead) => new NodeStore(this.world, { aheadMs: ahead }))
    this.#options = { votesAfter: 0, drift: 0, answerWithin: 100, environment: this.world.environment(), ...options }
  }

  /** One more client of the quorum. `weathers`: on its way to each store. */
  async driver(weathers: readonly (Partial<Weather> | undefined)[] = [], options: QuorumOptions = {}): Promise<Ask> {
    const links = this.stores.map((store, place) => store.link({ ...fair, ...weathers[place] }))
    return this.driverOver(links, options)
  }

  async driverOver(links: readonly LockDriver[], options: QuorumOptions = {}): Promise<Ask> {
    const driver = quorum(links, { ...this.#options, ...options })
    await this.world.run(driver.open())
    return new Ask(driver, this.world)
  }

  store(place: number): NodeStore {
    const store = this.stores[place - 1]
    if (store === undefined) throw new Error(`There is no store ${place}.`)
    return store
  }

  /** What a store holds, as `id fence`. */
  async holdersOn(place: number): Promise<string[]> {
    const page = await this.store(place).link().list({})
    return page.keys.flatMap(({ claims }) => claims.map(({ id, fence }) => `${id} ${fence}`))
  }

  /** Claims on one store, behind the quorum's back. */
  async holdOn(place: number, id: string, changes: Partial<Claim> = {}): Promise<void> {
    await this.store(place)
      .link()
      .send([{ op: 'claim', claim: { ...plain, id, ...changes } }])
  }

  async releaseOn(place: number, id: string): Promise<void> {
    await this.store(place)
      .link()
      .send([{ op: 'release', key, id }])
  }

  async writeBackTo(place: number, id: string, fenceFloor: number): Promise<void> {
    await this.store(place)
      .link()
      .send([{ op: 'renew', key, id, ttlMs: 1000, fenceFloor }])
  }

  /** Moves the fences of one store on, as one that reads its clock at every grant would by itself. */
  async liftFencesOn(place: number, fenceFloor: number): Promise<void> {
    const other = { key: 'default/named:other', id: 'lift' }
    await this.holdOn(place, other.id, { key: other.key })
    await this.store(place)
      .link()
      .send([
        { op: 'renew', ...other, ttlMs: 1000, fenceFloor },
        { op: 'release', ...other },
      ])
  }
}

/** One client, asking for one thing at a time. */
export class Ask {
  readonly driver: LockDriver
  readonly #world: World

  constructor(driver: LockDriver, world: World) {
    this.driver = driver
    this.#world = world
  }

  claim(id: string, changes: Partial<Claim> = {}): Promise<ClaimStatus> {
    return this.one({ op: 'claim', claim: { ...plain, id, ...changes } })
  }

  renew(id: string, ttlMs = 1000): Promise<ClaimStatus> {
    return this.one({ op: 'renew', key, id, ttlMs })
  }

  release(id: string): Promise<ClaimStatus> {
    return this.one({ op: 'release', key, id })
  }

  evict(fence: number): Promise<ClaimStatus> {
    return this.one({ op: 'evict', key, fence, reason: 'a test' })
  }

  async one(request: Request): Promise<ClaimStatus> {
    const sent = this.driver.send([request])
    await this.#world.run(sent)
    const [status] = await sent
    if (status === undefined) throw new Error('There was no answer.')
    return status
  }

  /** The fence of a claim that must be granted. */
  async fence(id: string): Promise<number> {
    const status = await this.claim(id)
    if (status.state !== 'held') throw new Error(`${id} was not granted: ${JSON.stringify(status)}`)
    return status.fence
  }

  async list(): Promise<string[]> {
    const listing = this.driver.list({})
    await this.#world.run(listing)
    return (await listing).keys.flatMap(({ claims }) => claims.map(({ id, fence }) => `${id} ${fence}`))
  }

  async close(): Promise<void> {
    await this.#world.run(this.driver.close())
  }
}

const fair: Weather = { delayMs: () => 0, losesRequest: () => false, losesReply: () => false }

/** Never arrives. */
export const cut: Partial<Weather> = { losesRequest: () => true }
/** Arrives, and nobody hears of it. */
export const mute: Partial<Weather> = { losesReply: () => true }
export const slow = (delayMs: number): Partial<Weather> => ({ delayMs: () => delayMs })

const plain: Claim = {
  id: '',
  key,
  mode: 'exclusive',
  priority: 0,
  wait: false,
  ttlMs: 1000,
  graceMs: 0,
  runner: { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' },
}
