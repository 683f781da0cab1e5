import type { AcquireOptions } from '../../../src/index.ts'
import { RunLog } from '../../../src/testing/simulation/run-log.ts'
import { Errands } from './errands.ts'
import { Holder } from './holder.ts'
import type { Setting } from './setting.ts'
import { WebPage } from './web-page.ts'
import { anyOptions, anyWish } from './wishes.ts'
import { clientOf } from '../../support/client-of.ts'

/** Takes one lock after another, does what holders do, and tells the history. */
export class Worker {
  readonly #setting: Setting
  readonly #runLog: RunLog
  readonly #holder: Holder
  readonly #errands: Errands
  readonly #page: WebPage | undefined

  constructor(setting: Setting) {
    this.#setting = setting
    this.#runLog = new RunLog(setting)
    this.#holder = new Holder(setting, this.#runLog)
    this.#errands = new Errands(setting, this.#runLog)
    if (setting.about === 'web locks') this.#page = new WebPage(setting, this.#runLog)
  }

  async work(until: number): Promise<void> {
    const { world, process, name, waiting, locks } = this.#setting
    while (world.now < until && !clientOf(locks).closed) {
      await process.wait(world.between(0, 60))
      waiting.add(name)
      await this.#holder.resumeAny()
      await this.#turn()
      waiting.delete(name)
    }
  }

  /** The client is about to be closed, in the middle of whatever is being done. */
  closing(): void {
    this.#runLog.endsAll()
  }

  async #turn(): Promise<void> {
    const { world, about, receives } = this.#setting
    if (receives) return
    if (this.#page !== undefined) return this.#page.request()
    if (about !== 'everything') return this.#takeOne()
    const whim = world.random()
    if (whim < 0.1) return this.#takeBoth()
    if (whim < 0.2) return this.#errands.doTask()
    if (whim < 0.3) return this.#nest()
    if (whim < 0.35) return this.#errands.reenter()
    return whim < 0.4 ? this.#errands.runOnce() : this.#takeOne()
  }

  async #takeOne(): Promise<void> {
    const { world } = this.#setting
    const { wanted, ask } = anyWish(this.#setting)
    const options: AcquireOptions = {
      ...anyOptions(this.#setting),
      ...(wanted.priority !== undefined && { priority: wanted.priority }),
      ...(wanted.priority === 5 && world.chance(0.5) && { onConflict: 'preempt' }),
    }
    const attempt = this.#runLog.begin(wanted)
    const lease = await this.#runLog.attempt(attempt, () => ask(options))
    if (lease !== undefined) await this.#holder.hold(attempt, wanted, lease)
  }

  /** Two locks at once, or none. */
  async #takeBoth(): Promise<void> {
    const { world, process, locks } = this.#setting
    const keys = ['ledger', 'orders']
    // It may give one of them back and ask again: only what it has in the end is a turn.
    const attempts = this.#runLog.beginAll(keys.map((key) => ({ key, mode: 'exclusive' })))
    try {
      const { leases } = await locks.acquireAll(keys, anyOptions(this.#setting))
      const turns = leases.map((lease, index) => ({ attempt: attempts[index] ?? '', lease }))
      for (const { attempt, lease } of turns) this.#runLog.got(attempt, lease)
      await process.wait(world.between(1, 60))
      await Promise.all(turns.map(({ attempt, lease }) => this.#runLog.letGo(attempt, lease)))
    } catch (error) {
      for (const attempt of attempts) this.#runLog.refused(attempt, error)
    }
  }

  /** One lock inside another, in either order: somebody may have to give way. */
  async #nest(): Promise<void> {
    const { world, process, locks, queues } = this.#setting
    const [outer, inner] = world.chance(0.5) ? (['orders', 'ledger'] as const) : (['ledger', 'orders'] as const)
    const within = async (key: string, body: () => Promise<void>): Promise<void> => {
      const attempt = this.#runLog.begin({ key, mode: 'exclusive' })
      // Where nobody sees who waits for whom, nobody may wait for ever.
      const options = { ...anyOptions(this.#setting), ...(!queues && { wait: world.between(10, 1500) }) }
      const running = locks.run(key, options, async (lease) => {
        this.#runLog.got(attempt, lease)
        await body()
        this.#runLog.ends(attempt, lease)
      })
      await running.catch((error: unknown) => this.#runLog.refused(attempt, error))
    }
    await within(outer, () => within(inner, () => process.wait(world.between(1, 60))))
  }
}
