import type { LockDriver } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { ownPace, readSnapshot, type StoreSnapshot } from './changes.ts'

interface Kept {
  readonly snapshot: StoreSnapshot
  readonly readAt: number
}

/** Namespaces whose snapshots are kept beside that of the whole store. */
const keptMax = 8

/** Reads snapshots of a store, once for all who ask at a time, and keeps the last of each kind. */
export class Snapshots {
  readonly #driver: Pick<LockDriver, 'list'>
  readonly #environment: Pick<Environment, 'now'>
  readonly #reading = new Map<string | undefined, Promise<StoreSnapshot>>()
  readonly #kept = new Map<string | undefined, Kept>()

  constructor(driver: Pick<LockDriver, 'list'>, environment: Pick<Environment, 'now'>) {
    this.#driver = driver
    this.#environment = environment
  }

  /** Reads the store, all namespaces unless one is named. */
  read(namespace?: string): Promise<StoreSnapshot> {
    let reading = this.#reading.get(namespace)
    if (reading === undefined) {
      reading = this.#readAndKeep(namespace).finally(() => this.#reading.delete(namespace))
      this.#reading.set(namespace, reading)
    }
    return reading
  }

  /** The last snapshot if it is no older than that, else a new one. */
  async notOlderThan(ageMs: number, namespace?: string): Promise<StoreSnapshot> {
    const kept = this.#kept.get(namespace)
    if (kept !== undefined && this.#environment.now() - kept.readAt <= ageMs) return kept.snapshot
    return this.read(namespace)
  }

  async #readAndKeep(namespace: string | undefined): Promise<StoreSnapshot> {
    const snapshot = await readSnapshot(this.#driver, ownPace, namespace)
    this.#kept.delete(namespace)
    this.#kept.set(namespace, { snapshot, readAt: this.#environment.now() })
    const [oldest] = [...this.#kept.keys()].filter((name) => name !== undefined)
    if (this.#kept.size > keptMax && oldest !== undefined) this.#kept.delete(oldest)
    return snapshot
  }
}
