import { byteRange, named, type AcquireOptions, type Lease, type Locks } from '../../../src/index.ts'
import type { HistoryEvent } from '../../../src/testing/index.ts'
import type { Wanted } from '../../../src/testing/history/event.ts'
import type { World } from '../../support/world.ts'
import type { SimulatedProcess } from './simulated-process.ts'

interface Setting {
  readonly world: World
  readonly process: SimulatedProcess
  readonly locks: Locks
  /** The process, in the history. */
  readonly client: string
  readonly name: string
  readonly events: HistoryEvent[]
  /** Workers in the middle of a turn. */
  readonly waiting: Set<string>
  /** Whether nobody else uses this client: then what it is told of queues is this worker's. */
  readonly alone: boolean
  /** Whether the store keeps a queue. */
  readonly queues: boolean
  /** Whether it is all about one lock, for many readers or one writer. */
  readonly onlyReads: boolean
}

/** Something to want, and how to ask for it. */
interface Wish {
  readonly wanted: Wanted
  readonly ask: (options: AcquireOptions) => Promise<Lease>
}

/** What may come of asking, in such weather; anything else is a fault. */
const expected = new Set(['TIMEOUT', 'UNAVAILABLE', 'DEADLOCK', 'NOT_HELD', 'LOST'])

/** Takes one lock after another, does what holders do, and tells the history. */
export class Worker {
  readonly #setting: Setting
  /** What it holds, by fence. */
  readonly #held = new Map<number, { readonly attempt: string; readonly lease: Lease }>()
  #turns = 0
  #asking: string | undefined

  constructor(setting: Setting) {
    this.#setting = setting
    setting.locks.on('renewed', ({ fence }) => {
      const held = this.#held.get(fence)
      if (held === undefined) return
      this.#tell({ type: 'renewed', attempt: held.attempt, deadline: this.#deadlineOf(held.lease) })
    })
    if (!setting.alone) return
    setting.locks.on('waiting', () => {
      if (this.#asking !== undefined) this.#tell({ type: 'queued', attempt: this.#asking })
    })
  }

  async work(until: number): Promise<void> {
    const { world, process, name, waiting, onlyReads } = this.#setting
    while (world.now < until) {
      await process.wait(world.between(0, 60))
      waiting.add(name)
      const whim = world.random()
      if (onlyReads) await this.#takeOne()
      else if (whim < 0.1) await this.#takeBoth()
      else if (whim < 0.2) await this.#doTask()
      else if (whim < 0.3) await this.#nest()
      else await this.#takeOne()
      waiting.delete(name)
    }
  }

  async #takeOne(): Promise<void> {
    const { world } = this.#setting
    const { wanted, ask } = this.#wish()
    const options: AcquireOptions = {
      ...this.#options(),
      ...(wanted.priority !== undefined && { priority: wanted.priority }),
      ...(wanted.priority === 5 && world.chance(0.5) && { onConflict: 'preempt' }),
    }
    const attempt = this.#begin(wanted)
    const lease = await this.#attempt(attempt, () => ask(options))
    if (lease !== undefined) await this.#hold(attempt, wanted, lease)
  }

  #options(): AcquireOptions {
    const { world } = this.#setting
    return {
      ttl: world.between(500, 1500),
      ...(world.chance(0.2) && { heartbeat: 'manual' }),
      ...(world.chance(0.4) && { wait: world.between(10, 1500) }),
      ...(world.chance(0.1) && { maxHold: world.between(300, 2000) }),
      ...(world.chance(0.1) && { grace: world.between(100, 1000) }),
    }
  }

  /** Two locks at once, or none. */
  async #takeBoth(): Promise<void> {
    const { world, process, locks } = this.#setting
    const keys = ['ledger', 'orders']
    const attempts = keys.map((key) => this.#begin({ key, mode: 'exclusive' }))
    // It may give one of them back and ask again: only what it has in the end is a turn.
    this.#asking = undefined
    try {
      const { leases } = await locks.acquireAll(keys, this.#options())
      const turns = leases.map((lease, index) => ({ attempt: attempts[index] ?? '', lease }))
      for (const { attempt, lease } of turns) this.#got(attempt, lease)
      await process.wait(world.between(1, 60))
      await Promise.all(turns.map(({ attempt, lease }) => this.#letGo(attempt, lease)))
    } catch (error) {
      unlessExpected(error)
      for (const attempt of attempts) this.#tell({ type: 'refused', attempt })
    }
  }

  /** One lock inside another, in either order: somebody may have to give way. */
  async #nest(): Promise<void> {
    const { world, process, locks, queues } = this.#setting
    const [outer, inner] = world.chance(0.5) ? (['orders', 'ledger'] as const) : (['ledger', 'orders'] as const)
    const within = async (key: string, body: () => Promise<void>): Promise<void> => {
      const attempt = this.#begin({ key, mode: 'exclusive' })
      // Where nobody sees who waits for whom, nobody may wait for ever.
      const options = { ...this.#options(), ...(!queues && { wait: world.between(10, 1500) }) }
      const running = locks.run(key, options, async (lease) => {
        this.#got(attempt, lease)
        await body()
        this.#held.delete(lease.fence)
        this.#tell({ type: 'release', attempt })
      })
      await running.catch((error: unknown) => {
        unlessExpected(error)
        this.#tell({ type: 'refused', attempt })
      })
    }
    await within(outer, () => within(inner, () => process.wait(world.between(1, 60))))
  }

  /** Whoever has the task completes it, mostly; it is remembered for less than its lease would have lasted, or for more. */
  async #doTask(): Promise<void> {
    const { world, process, locks } = this.#setting
    const id = String(world.between(1, 3))
    const attempt = this.#begin({ key: `task ${id}`, mode: 'exclusive' })
    try {
      const task = await locks.claim('tasks', id, { ttl: world.between(500, 1500) })
      if (task.state !== 'claimed') return this.#tell({ type: 'refused', attempt })
      this.#got(attempt, task.lease)
      await process.wait(world.chance(0.2) ? world.between(300, 1200) : world.between(1, 60))
      if (world.chance(0.3)) return await this.#letGo(attempt, task.lease)
      const completing = task.complete({ remember: world.between(200, 2500) })
      this.#tell({ type: 'renewed', attempt, deadline: this.#deadlineOf(task.lease) })
      await completing
    } catch (error) {
      unlessExpected(error)
      this.#tell({ type: 'refused', attempt })
    }
  }

  #wish(): Wish {
    const { world, locks, onlyReads } = this.#setting
    const kind = onlyReads ? 2 : world.between(0, 5)
    if (kind === 0) {
      const start = world.between(0, 5)
      const range = { start, end: start + world.between(1, 4) }
      const scope = byteRange(7, range.start, range.end)
      const wanted: Wanted = { key: 'file', mode: 'exclusive', range }
      return { wanted, ask: (options) => locks.acquire(scope, options) }
    }
    if (kind === 1) {
      const wanted: Wanted = { key: 'pool', mode: 'shared', limit: 2 }
      return { wanted, ask: (options) => locks.semaphore('pool', 2).acquire(options) }
    }
    if (kind <= 3) {
      const mode = world.chance(0.6) ? 'shared' : 'exclusive'
      const book = locks.readWrite('book')
      const ask: Wish['ask'] = (options) => (mode === 'shared' ? book.read(options) : book.write(options))
      return { wanted: { key: 'book', mode }, ask }
    }
    const wanted: Wanted = { key: 'orders', mode: 'exclusive', priority: world.chance(0.2) ? 5 : 0 }
    return { wanted, ask: (options) => locks.acquire(named('orders'), options) }
  }

  /** Holds, looks, renews, converts, in any order, and lets go. */
  async #hold(attempt: string, wanted: Wanted, lease: Lease): Promise<void> {
    const { world, process } = this.#setting
    for (let steps = world.between(0, 3); steps > 0 && lease.held; steps -= 1) {
      await process.wait(world.chance(0.2) ? world.between(300, 1200) : world.between(1, 60))
      if (!lease.held) break
      this.#tell({ type: 'checked', attempt })
      const whim = world.random()
      if (whim < 0.05) lease.stopHeartbeat()
      else if (whim < 0.1) lease.startHeartbeat()
      else if (whim < 0.4) await this.#renew(attempt, lease)
      if (wanted.key === 'book' && lease.held && world.chance(0.4)) return this.#convert(attempt, wanted, lease)
      if (lease.held && world.chance(0.1)) return this.#handOff(attempt, wanted, lease)
    }
    await this.#letGo(attempt, lease)
  }

  async #letGo(attempt: string, lease: Lease): Promise<void> {
    this.#held.delete(lease.fence)
    this.#tell({ type: 'release', attempt })
    await lease.release()
    this.#tell({ type: 'released', attempt })
  }

  /** By a ttl of another length: what is trusted may become less at once. */
  async #renew(attempt: string, lease: Lease): Promise<void> {
    const renewing = lease.renew(this.#setting.world.between(200, 2500)).catch(unlessExpected)
    this.#tell({ type: 'renewed', attempt, deadline: this.#deadlineOf(lease) })
    await renewing
  }

  /** To itself: what matters is that nobody else gets in between. */
  async #handOff(attempt: string, wanted: Wanted, lease: Lease): Promise<void> {
    const { locks } = this.#setting
    try {
      const proof = await lease.handOff()
      const resumed = await locks.resume(proof)
      this.#held.set(resumed.fence, { attempt, lease: resumed })
      this.#tell({ type: 'renewed', attempt, deadline: this.#deadlineOf(resumed) })
      resumed.signal.addEventListener('abort', () => this.#tell({ type: 'lost', attempt }))
      await this.#hold(attempt, wanted, resumed)
    } catch (error) {
      unlessExpected(error)
      await this.#letGo(attempt, lease)
    }
  }

  async #convert(attempt: string, { key, mode }: Wanted, lease: Lease): Promise<void> {
    const { world } = this.#setting
    const next = { key, mode: mode === 'shared' ? 'exclusive' : 'shared', jumps: true } as const
    // Readers are let in before the writer that it was hears of it.
    if (next.mode === 'shared') this.#tell({ type: 'release', attempt })
    const conversion = this.#begin(next)
    const converted = await this.#attempt(conversion, async () => {
      const converting = next.mode === 'shared' ? lease.downgrade() : lease.upgrade({ wait: world.between(10, 1500) })
      const successor = await converting
      this.#held.delete(lease.fence)
      this.#tell({ type: 'release', attempt })
      return successor
    })
    return converted === undefined ? this.#letGo(attempt, lease) : this.#hold(conversion, next, converted)
  }

  // ---- the history

  #begin(wanted: Wanted): string {
    const { client, name } = this.#setting
    const attempt = `${name}/${(this.#turns += 1)}`
    this.#asking = attempt
    this.#tell({ type: 'acquire', client, attempt, ...wanted })
    return attempt
  }

  async #attempt(attempt: string, ask: () => Promise<Lease>): Promise<Lease | undefined> {
    try {
      const lease = await ask()
      this.#got(attempt, lease)
      return lease
    } catch (error) {
      unlessExpected(error)
      this.#tell({ type: 'refused', attempt })
      return undefined
    }
  }

  #got(attempt: string, lease: Lease): void {
    this.#asking = undefined
    this.#held.set(lease.fence, { attempt, lease })
    this.#tell({ type: 'granted', attempt, fence: lease.fence, deadline: this.#deadlineOf(lease) })
    lease.signal.addEventListener('abort', () => this.#tell({ type: 'lost', attempt }))
  }

  /** When the lease can no longer be trusted, by true time. */
  #deadlineOf(lease: Lease): number {
    const { world, process } = this.#setting
    return world.now + lease.remainingMs / process.rate
  }

  #tell(event: Untimed): void {
    this.#setting.events.push({ at: this.#setting.world.now, ...event })
  }
}

type Untimed = HistoryEvent extends infer Each ? (Each extends HistoryEvent ? Omit<Each, 'at'> : never) : never

function unlessExpected(error: unknown): void {
  if (!expected.has((error as { code?: string }).code ?? '')) throw error
}
