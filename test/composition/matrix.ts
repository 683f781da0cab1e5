/**
 * The facts that every composition keeps under every fault, each with its own meaning of "keeps".
 *
 * A lock is held when the fault comes. Another client wants it all the while. What the two believe is judged by what they were
 * told: by `lease.held`, which follows the holder's own deadline and `lease.signal`.
 */
import { describe, expect, test, type TestOptions } from 'vitest'
import { createLocks, type Lease, type LeaseholdError, type Locks } from '../../src/index.ts'
import { faulty, type FaultyDriver } from '../../src/testing/index.ts'
import type { ClocksOff, Composition, Fault, Setting } from './compositions.ts'
import type { MakeStore } from './stores.ts'
import type { MatrixTime } from './time.ts'

/**
 * What is promised about a lock that is held when the fault comes.
 *
 * kept: its holder notices nothing. exclusive: it may be lost, but then its holder knows before anybody else has it. fenced: the
 * store has forgotten it, and the next holder may be in before the last one knows; the fence tells them apart, and the last one is
 * told with its next renewal.
 */
export type Promised = 'kept' | 'exclusive' | 'fenced'

export interface Cell {
  readonly composition: Composition
  readonly fault: Fault | 'nothing' | 'the holder is cut off'
  readonly promised: Promised
  readonly off?: ClocksOff & { readonly clientMs?: number }
}

export interface MatrixOptions {
  readonly make: MakeStore
  readonly time: () => MatrixTime
  readonly ttlMs: number
  readonly cells: readonly Cell[]
  /** Whether cells wait, and so may run side by side. */
  readonly concurrent?: boolean
  /** When a cell is tried again: only where the store's own build fails now and then. */
  readonly retry?: TestOptions['retry']
}

/** One test for each cell. */
export function compositionMatrix(
  store: string,
  { make, time, ttlMs, cells, concurrent = false, retry = 0 }: MatrixOptions,
): void {
  const rows = cells.map((cell) => [titleOf(cell), cell] as const)
  describe(store, { concurrent, retry }, () => {
    test.each(rows)('%s', async (_title, cell) => {
      const clocks = time()
      const setting = await cell.composition.up(make, clocks, cell.off)
      const scene = new Scene(setting, clocks, ttlMs, cell.off?.clientMs)
      try {
        await scene.play(cell)
      } finally {
        await scene.close()
        await setting.close()
      }
    })
  })
}

const means: Readonly<Record<Promised, string>> = {
  kept: 'the holder keeps it',
  exclusive: 'never two holders',
  fenced: 'the next fence is higher, and the last holder is told',
}

function titleOf({ composition, fault, promised, off = {} }: Cell): string {
  const clocks = Object.entries(off).map(([owner, ms]) => `${owner.replace('Ms', '')} clock ${hours(ms)}`)
  const conditions = fault === 'nothing' ? clocks.join(', ') : [fault, ...clocks].join(', ')
  return `${composition.name}, ${conditions}: ${means[promised]}`
}

function hours(ms: number): string {
  return `${ms > 0 ? '+' : ''}${ms / 3_600_000} h`
}

/** One cell: a lock that is held while the fault comes. */
class Scene {
  readonly #setting: Setting
  readonly #time: MatrixTime
  readonly #ttlMs: number
  readonly #clientOffMs: number | undefined
  readonly #clients: Locks[] = []
  /** What each client reaches the composition over, in the order of the clients. */
  readonly #wires: FaultyDriver[] = []
  readonly #fences: number[] = []

  constructor(setting: Setting, time: MatrixTime, ttlMs: number, clientOffMs: number | undefined) {
    this.#setting = setting
    this.#time = time
    this.#ttlMs = ttlMs
    this.#clientOffMs = clientOffMs
  }

  async play({ fault, promised }: Cell): Promise<void> {
    await this.#time.advance(this.#setting.readyAfterMs)
    const first = await this.#client(this.#clientOffMs)
    const second = await this.#client()
    for (const locks of [second, first]) await this.#turn(locks)
    await this.#setting.copy()
    const lease = await this.#during(this.#asked(first))
    this.#fences.push(lease.fence)
    // No fault follows a grant within the same microsecond.
    await this.#time.advance(5)
    await this.#during(this.#happens(fault))
    const { next, overlapMs, isKept } = await this.#compete(lease, second)
    this.#fences.push(next.fence)
    if (promised !== 'fenced') expect(overlapMs, 'how long two believed that they hold').toBe(0)
    // Until the next renewal is answered, which comes after a third of the ttl.
    else if (!this.#time.isReal) expect(overlapMs, 'how long two believed it').toBeLessThanOrEqual(this.#ttlMs / 2)
    if (promised === 'kept' && !this.#time.isReal) expect(isKept, 'whether it was kept').toBe(true)
    await this.#during(next.release())
    await this.#turn(await this.#client())
    expect(
      this.#fences.toSorted((a, b) => a - b),
      'fences, in order',
    ).toEqual(this.#fences)
    expect(new Set(this.#fences).size, 'different fences').toBe(this.#fences.length)
  }

  async close(): Promise<void> {
    for (const wire of this.#wires) wire.plan = {}
    await this.#during(Promise.all(this.#clients.map((locks) => locks.close())))
  }

  /**
   * A rival asks for the lock. If the holder still has it after more than a ttl, it releases. Counts for how long both
   * believed to hold.
   */
  async #compete(lease: Lease, rival: Locks): Promise<Outcome> {
    const found: { next?: Lease; failed?: unknown } = {}
    let overlapMs = 0
    let isKept = false
    const ask = async (): Promise<void> => {
      try {
        found.next = await this.#asked(rival)
        if (lease.held) overlapMs += 1
      } catch (error) {
        found.failed = error
      }
    }
    const asking = ask()
    const stepMs = this.#ttlMs / 30
    const keepsFor = this.#time.isReal ? 1.5 : 3
    for (let passedMs = 0; passedMs < patienceTtls * this.#ttlMs; passedMs += stepMs) {
      if (found.failed !== undefined) throw found.failed
      if (found.next !== undefined && !lease.held) break
      if (!isKept && passedMs > keepsFor * this.#ttlMs && lease.held && found.next === undefined) {
        isKept = true
        await this.#during(lease.release())
      }
      await this.#time.advance(stepMs)
      if (found.next !== undefined && lease.held) overlapMs += stepMs
    }
    const { next } = found
    if (next === undefined) throw new Error('Nobody got the lock any more.')
    await asking
    // A holder that lost the lock was told the reason.
    if (!isKept) expect(lease.signal.reason, 'what the last holder was told').toMatchObject({ code: 'LOST' })
    expect(lease.held, 'whether the last holder still believes it').toBe(false)
    return { next, overlapMs, isKept }
  }

  async #happens(fault: Cell['fault']): Promise<void> {
    if (fault === 'nothing') return
    if (fault === 'the holder is cut off') {
      const [wire] = this.#wires
      if (wire !== undefined) wire.plan = { reject: 1 }
      return
    }
    const happens = this.#setting.faults[fault]
    if (happens === undefined) throw new Error(`There is no way to have "${fault}" here.`)
    await happens()
  }

  async #client(wallOffMs?: number): Promise<Locks> {
    const locks = await this.#during(this.#persistently(() => this.#connected(wallOffMs)))
    this.#clients.push(locks)
    return locks
  }

  #connected(wallOffMs: number | undefined): Promise<Locks> {
    if (this.#setting.connect !== undefined) return this.#setting.connect()
    const wire = faulty(this.#setting.driver(wallOffMs))
    this.#wires.push(wire)
    return createLocks({ driver: wire, environment: this.#time.environment(wallOffMs) })
  }

  /** Takes the lock and lets it go. */
  async #turn(locks: Locks): Promise<void> {
    const lease = await this.#during(this.#asked(locks))
    this.#fences.push(lease.fence)
    await this.#during(lease.release())
  }

  #asked(locks: Locks): Promise<Lease> {
    const wait = patienceTtls * this.#ttlMs
    return this.#persistently(() => locks.acquire('orders/42', { ttl: this.#ttlMs, wait }))
  }

  /** Tries until it succeeds: a composition that has just been through a fault may be out of reach for a while. */
  async #persistently<Found>(work: () => Promise<Found>): Promise<Found> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work()
      } catch (error) {
        const isPassing = ['UNAVAILABLE', 'TIMEOUT'].includes((error as LeaseholdError).code)
        if (!isPassing || tries > triesMax) throw error
        await new Promise<void>((resolve) => {
          this.#time
            .environment()
            .timer(this.#ttlMs / 10, resolve)
            .keepAlive(true)
        })
      }
    }
  }

  /** Lets time pass until this is done. */
  async #during<Found>(work: Promise<Found>): Promise<Found> {
    if (this.#time.isReal) return work
    const progress = { isOver: false }
    const over = (): void => void (progress.isOver = true)
    work.then(over, over)
    await this.#time.advance(0)
    for (let steps = 0; !progress.isOver && steps < 30 * patienceTtls; steps += 1)
      await this.#time.advance(this.#ttlMs / 30)
    if (!progress.isOver) throw new Error('This did not come to an end.')
    return work
  }
}

/** How the lock passed on. */
interface Outcome {
  readonly next: Lease
  readonly overlapMs: number
  readonly isKept: boolean
}

/** Longer than anybody without a vote waits for it, and a few tries. */
const patienceTtls = 60
const triesMax = 200
