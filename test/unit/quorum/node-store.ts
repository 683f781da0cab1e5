import type { KeyPage, ListQuery, LockDriver, Request, ClaimStatus } from '../../../src/core/contract/driver.ts'
import { memory } from '../../../src/drivers/memory/driver.ts'
import type { World } from '../../../src/testing/simulation/world.ts'

/** What may go wrong on the way to a node and back. */
export interface Weather {
  readonly delayMs: () => number
  /** The request never arrives. */
  readonly losesRequest: () => boolean
  /** It is carried out, and nobody hears of it. */
  readonly losesReply: () => boolean
}

const fair: Weather = { delayMs: () => 0, losesRequest: () => false, losesReply: () => false }

/** How long a client waits for a reply that was lost before it calls the outcome unknown. */
const givesUpAfterMs = 3000

/** One store of a quorum, which can be slow, stopped, dead or back without its data. */
export class NodeStore {
  down = false
  readonly #world: World
  readonly #rate: number
  readonly #aheadMs: number
  #driver: LockDriver
  #resume: Promise<void> | undefined
  /** Everything it was sent. */
  readonly sent: Request[][] = []

  /** `rate` is that of its clock, `aheadMs` by how much its wall clock, and so its fences, are ahead. */
  constructor(world: World, { rate = 1, aheadMs = 0 } = {}) {
    this.#world = world
    this.#rate = rate
    this.#aheadMs = aheadMs
    this.#driver = this.#fresh()
  }

  restartEmpty(): void {
    this.#driver = this.#fresh()
  }

  /** Requests wait until then, and are carried out all the same. */
  stopFor(ms: number): void {
    this.#resume = this.#world.wait(ms)
  }

  /** The driver of one client on this node. */
  link(weather: Weather = fair): LockDriver {
    return {
      name: 'memory',
      supports: this.#driver.supports,
      open: async () => this.#refuseIfDown(),
      send: (requests) => this.#send(requests, weather),
      list: (query: ListQuery): Promise<KeyPage> => {
        this.#refuseIfDown()
        return this.#driver.list(query)
      },
      dataAgeMs: () => this.dataAgeMs(),
      close: async () => {},
    }
  }

  async dataAgeMs(): Promise<number> {
    this.#refuseIfDown()
    return (await this.#driver.dataAgeMs?.()) ?? 0
  }

  async #send(requests: readonly Request[], weather: Weather): Promise<readonly ClaimStatus[]> {
    await this.#delay(weather)
    await this.#resume
    this.#refuseIfDown()
    if (weather.losesRequest()) return this.#unknown(requests)
    this.sent.push([...requests])
    const statuses = await this.#driver.send(requests)
    if (weather.losesReply()) return this.#unknown(requests)
    await this.#delay(weather)
    await this.#resume
    return statuses
  }

  async #delay(weather: Weather): Promise<void> {
    const delayMs = weather.delayMs()
    if (delayMs > 0) await this.#world.wait(delayMs)
  }

  async #unknown(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    await this.#world.wait(givesUpAfterMs)
    return requests.map(() => ({ state: 'unknown', error: new Error('the connection was cut') }))
  }

  #refuseIfDown(): void {
    if (this.down) throw new Error('connection refused')
  }

  #fresh(): LockDriver {
    return memory({
      clock: {
        now: () => this.#world.now * this.#rate,
        wall: () => 1_700_000_000_000 + this.#world.now + this.#aheadMs,
      },
    })
  }
}
