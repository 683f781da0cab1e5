import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
  Supports,
} from '../../../src/core/contract/driver.ts'
import { Listeners } from '../../../src/drivers/kit/listeners.ts'
import { memory, type MemoryClock } from '../../../src/drivers/memory/driver.ts'
import { linkDown } from '../../../src/testing/simulation/network.ts'

/** A store in this process that can be away for a while, and come back empty. */
export class RestartingStore implements LockDriver {
  readonly name = 'memory'
  isDown = false
  readonly #clock: MemoryClock
  readonly #listeners = new Listeners()
  #driver: LockDriver
  #listening: Disposable | undefined

  constructor(clock: MemoryClock) {
    this.#clock = clock
    this.#driver = this.#fresh()
  }

  get supports(): Supports {
    return this.#driver.supports
  }

  restartEmpty(): void {
    this.#listening?.[Symbol.dispose]()
    this.#driver = this.#fresh()
  }

  async open(): Promise<void> {
    this.#refuseIfDown()
  }

  async send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    this.#refuseIfDown()
    return this.#driver.send(requests)
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#refuseIfDown()
    return this.#driver.list(query)
  }

  async dataAgeMs(): Promise<number> {
    this.#refuseIfDown()
    return (await this.#driver.dataAgeMs?.()) ?? 0
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async close(): Promise<void> {}

  #fresh(): LockDriver {
    const driver = memory({ clock: this.#clock })
    this.#listening = driver.listen?.(
      (...notification) => this.#listeners.notify(...notification),
      () => this.#listeners.gap(),
    )
    return driver
  }

  #refuseIfDown(): void {
    if (this.isDown) throw linkDown('The store is down.')
  }
}
