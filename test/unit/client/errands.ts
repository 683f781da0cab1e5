import type { Lease } from '../../../src/index.ts'
import type { RunLog } from '../../../src/testing/simulation/run-log.ts'
import type { Setting } from './setting.ts'
import { anyOptions } from './wishes.ts'

/** Clocks run a little differently: how much of a time by the store's clock is certain by true time. */
const certainShare = 0.95

/** What is built on locks: jobs that run once, tasks, and owners that take what they have. */
export class Errands {
  readonly #setting: Setting
  readonly #runLog: RunLog

  constructor(setting: Setting, runLog: RunLog) {
    this.#setting = setting
    this.#runLog = runLog
  }

  /** Claims a task and mostly completes it; the completion is remembered for less time than the lease would last, or for more. */
  async doTask(): Promise<void> {
    const { world, process, locks, trust } = this.#setting
    const id = String(world.between(1, 3))
    const attempt = this.#runLog.begin({ key: `task ${id}`, mode: 'exclusive' })
    try {
      const task = await locks.claim('tasks', id, { ttl: world.between(500, 1500) })
      if (task.state !== 'claimed') return this.#runLog.deliver({ type: 'refused', attempt })
      this.#runLog.got(attempt, task.lease)
      await process.wait(world.chance(0.2) ? world.between(300, 1200) : world.between(1, 60))
      if (world.chance(0.3)) return await this.#runLog.letGo(attempt, task.lease)
      trust.exempt(task.lease)
      const completing = task.complete({ remember: world.between(200, 2500) })
      this.#runLog.deliver({ type: 'renewed', attempt, deadline: this.#runLog.deadlineOf(task.lease) })
      await completing.catch(async (error: unknown) => {
        this.#runLog.unlessExpected(error)
        // The task still belongs to this worker.
        await this.#runLog.letGo(attempt, task.lease)
      })
    } catch (error) {
      this.#runLog.refused(attempt, error)
    }
  }

  /** A scheduled job. Nobody else begins it too early, whatever becomes of this process. */
  async runOnce(): Promise<void> {
    const { world, process, locks } = this.#setting
    const atMost = world.between(500, 2000)
    const atLeast = world.chance(0.3) ? 0 : world.between(100, atMost)
    const askedAt = world.now
    const attempt = this.#runLog.begin({ key: 'job', mode: 'exclusive' })
    try {
      const { ran } = await locks.once('job', { atMost, atLeast }, async (lease) => {
        const keptOff = this.#keepOff(attempt, lease, askedAt + atMost * certainShare)
        this.#runLog.got(attempt, lease)
        await process.wait(world.chance(0.2) ? world.between(300, 1200) : world.between(1, 60))
        this.#runLog.ends(attempt, lease)
        keptOff(atLeast)
      })
      if (!ran) this.#runLog.deliver({ type: 'refused', attempt })
    } catch (error) {
      this.#runLog.refused(attempt, error)
    }
  }

  /** Others are kept off until the job's time is over, or for what its end then says: a crash does not change that. */
  #keepOff(attempt: string, { fence }: Lease, until: number): (atLeastMs: number) => void {
    const { world } = this.#setting
    const since = world.now
    const kept = `${attempt} kept off`
    this.#runLog.deliver({ type: 'acquire', client: 'the schedule', attempt: kept, key: 'schedule', mode: 'exclusive' })
    this.#runLog.deliver({ type: 'granted', attempt: kept, fence, deadline: until })
    return (atLeastMs) => {
      const deadline = Math.min(until, since + atLeastMs * certainShare)
      this.#runLog.deliver({ type: 'renewed', attempt: kept, deadline })
    }
  }

  /** A lock inside itself: it is let go with the outermost. */
  async reenter(): Promise<void> {
    const { world, process, locks } = this.#setting
    const within = async (outer: Lease | undefined, depth: number): Promise<void> => {
      const attempt = this.#runLog.begin({ key: 'orders', mode: 'exclusive' })
      const running = locks.run('orders', { ...anyOptions(this.#setting), reentrant: true }, async (lease) => {
        // Otherwise the outer lease was lost, and this is a new one.
        const isSame = lease === outer
        if (isSame) this.#runLog.deliver({ type: 'refused', attempt })
        else this.#runLog.got(attempt, lease)
        if (depth > 0) await within(lease, depth - 1)
        await process.wait(world.between(1, 60))
        if (!isSame) this.#runLog.ends(attempt, lease)
      })
      await running.catch((error: unknown) => this.#runLog.refused(attempt, error))
    }
    await within(undefined, world.between(1, 3))
  }
}
