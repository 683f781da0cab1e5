import { randomBytes } from 'node:crypto'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { etcd, type EtcdOptions, type KnownTimes, type LeasesForTests } from '../../src/drivers/etcd/driver.ts'
import { EtcdClient } from '../../src/drivers/etcd/rpc/client.ts'
import { parseEtcdUrl } from '../../src/drivers/etcd/rpc/address.ts'
import { calls, remove, txnRequest } from '../../src/drivers/etcd/rpc/messages.ts'
import type { Harness } from '../../src/testing/index.ts'

/**
 * A prefix of its own for each bench, whose clock only the bench moves: drivers tell when claims end, and the markers of
 * those whose time has come are really removed.
 */
export function etcdHarness(
  url: string,
  options: EtcdOptions & { readonly restart?: () => Promise<void> } = {},
): Harness {
  const { restart, ...rest } = options
  return {
    async open() {
      const prefix = `bench-${randomBytes(6).toString('hex')}/`
      const times = new MovedLeases(url)
      const drivers: LockDriver[] = []
      return {
        async driver() {
          const driver = etcd(url, { ...rest, prefix, leasesForTests: times })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        advance: (ms) => times.advance(ms),
        ...(restart !== undefined && { restart }),
        empty: () => times.removeAll(prefix),
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
          await times.removeAll(prefix)
          await times.close()
        },
      }
    },
  }
}

/** What a bench does in place of etcd's leases. */
class MovedLeases implements LeasesForTests {
  #time = Date.now()
  readonly #times = new Map<string, KnownTimes>()
  readonly #client: EtcdClient

  constructor(url: string) {
    const now = (): number => performance.now()
    this.#client = new EtcdClient({
      address: parseEtcdUrl(url),
      tls: undefined,
      healthKey: 'bench',
      timeoutMs: 5000,
      now,
    })
  }

  now(): number {
    return this.#time
  }

  known(marker: string): KnownTimes | undefined {
    return this.#times.get(marker)
  }

  learn(marker: string, times: KnownTimes): void {
    this.#times.set(marker, times)
  }

  async advance(ms: number): Promise<void> {
    this.#time += ms
    const over = [...this.#times].filter(([, { expiresAt }]) => expiresAt <= this.#time).map(([marker]) => marker)
    for (const marker of over) this.#times.delete(marker)
    for (let from = 0; from < over.length; from += 100) {
      const success = over.slice(from, from + 100).map((marker) => remove(marker))
      await this.#client.call(calls.txn, txnRequest({ compare: [], success }), 5000)
    }
  }

  async removeAll(prefix: string): Promise<void> {
    const success = [remove(prefix, Buffer.from(`${prefix.slice(0, -1)}0`))]
    await this.#client.call(calls.txn, txnRequest({ compare: [], success }), 5000)
    this.#times.clear()
  }

  close(): Promise<void> {
    return this.#client.close()
  }
}
