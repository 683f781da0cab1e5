import type { AcquireOptions, Lease } from '../../../src/index.ts'
import type { LoggedWish } from '../../../src/testing/history/event.ts'
import { RunLog } from '../../../src/testing/simulation/run-log.ts'
import type { PassedLease, Setting, Subject } from './setting.ts'
import { anyOptions } from './wishes.ts'

interface Habits {
  /** The most steps it takes with a lease. */
  readonly stepsMax: number
  /** The probability that a step renews. */
  readonly renews: number
  /** The probability that it hands the lease off. */
  readonly handsOff: number
  readonly ttlMinMs: number
}

const usual: Habits = { stepsMax: 3, renews: 0.3, handsOff: 0.1, ttlMinMs: 200 }
const habitsOf: Partial<Record<Subject, Habits>> = {
  'hand-offs': { stepsMax: 5, renews: 0.6, handsOff: 0.4, ttlMinMs: 500 },
  renewals: { stepsMax: 8, renews: 0.7, handsOff: 0, ttlMinMs: 400 },
}

/** Does what holders do with a lease, and logs it. */
export class Holder {
  readonly #setting: Setting
  readonly #runLog: RunLog
  readonly #habits: Habits

  constructor(setting: Setting, runLog: RunLog) {
    this.#setting = setting
    this.#runLog = runLog
    this.#habits = habitsOf[setting.about] ?? usual
  }

  /** Checks, renews and converts the lease in any order, and releases it or hands it off. */
  async hold(attempt: string, wanted: LoggedWish, lease: Lease): Promise<void> {
    const { world, process } = this.#setting
    const { stepsMax, renews, handsOff } = this.#habits
    for (let steps = world.between(0, stepsMax); steps > 0 && lease.held; steps -= 1) {
      await process.wait(world.chance(0.2) ? world.between(300, 1200) : world.between(1, 60))
      if (!lease.held) break
      this.#runLog.deliver({ type: 'checked', attempt })
      if (world.chance(0.5)) lease.progress()
      const whim = world.random()
      if (whim < 0.05) lease.stopHeartbeat()
      else if (whim < 0.1) lease.startHeartbeat()
      else if (whim < 0.1 + renews) await this.#renew(attempt, lease)
      if (wanted.key === 'book' && lease.held && world.chance(0.4)) return this.#convert(attempt, wanted, lease)
      if (lease.held && world.chance(handsOff)) return this.#handOff(attempt, wanted, lease)
    }
    await this.#runLog.letGo(attempt, lease)
  }

  /** Renews for a ttl of another length: the trusted time may become shorter at once. */
  async #renew(attempt: string, lease: Lease): Promise<void> {
    const { world, traces } = this.#setting
    const answered = lease.renew(world.between(this.#habits.ttlMinMs, 2500))
    traces.owe('a renewal', answered)
    const renewing = answered.catch((error: unknown) => this.#runLog.unlessExpected(error))
    this.#runLog.deliver({ type: 'renewed', attempt, deadline: this.#runLog.deadlineOf(lease) })
    // Without awaiting the renewal, the holder may send another request meanwhile.
    if (world.chance(0.7)) await renewing
  }

  async #convert(attempt: string, { key, mode }: LoggedWish, lease: Lease): Promise<void> {
    const next = { key, mode: mode === 'shared' ? 'exclusive' : 'shared', jumps: true } as const
    // After a downgrade readers are granted before the former writer has its answer.
    if (next.mode === 'shared') this.#runLog.deliver({ type: 'release', attempt })
    this.#setting.trust.exempt(lease)
    const conversion = this.#runLog.begin(next)
    const converted = await this.#runLog.attempt(conversion, async () => {
      const converting = next.mode === 'shared' ? lease.downgrade() : this.#upgrade(lease)
      const successor = await converting
      this.#runLog.ends(attempt, lease)
      return successor
    })
    return converted === undefined ? this.#runLog.letGo(attempt, lease) : this.hold(conversion, next, converted)
  }

  #upgrade(lease: Lease): Promise<Lease> {
    const { world, traces } = this.#setting
    const { wait = world.between(10, 1500), signal } = anyOptions(this.#setting)
    const upgrading = lease.upgrade({ wait, ...(signal !== undefined && { signal }) })
    // Once more, by mistake: that must change nothing for the first.
    if (world.chance(0.3)) traces.owe('a second upgrade', lease.upgrade())
    return upgrading
  }

  /** To whichever process finds the proof first, this one among them; at times long after. */
  async #handOff(attempt: string, wanted: LoggedWish, lease: Lease): Promise<void> {
    const { world, passed, trust } = this.#setting
    try {
      const proof = await lease.handOff()
      this.#runLog.ends(attempt, lease)
      const twice = world.chance(0.1)
      if (twice) trust.exempt(lease)
      const left: PassedLease = {
        // As text: that is how it travels.
        proof: JSON.parse(JSON.stringify(proof)) as PassedLease['proof'],
        wanted,
        origin: wanted.resumes ?? attempt,
        foundAt: world.now + (world.chance(0.7) ? 0 : world.between(50, 1500)),
        ttlMs: world.chance(0.5) ? world.between(200, 2500) : undefined,
        twice,
      }
      passed.push(...(twice ? [left, left] : [left]))
    } catch (error) {
      this.#runLog.unlessExpected(error)
      await this.#runLog.letGo(attempt, lease)
    }
  }

  /** Resumes a lease that was handed off, if there is any. */
  async resumeAny(): Promise<void> {
    const { world, passed } = this.#setting
    const index = passed.findIndex(({ foundAt }) => foundAt <= world.now)
    const [found] = index < 0 ? [] : passed.splice(index, 1)
    if (found === undefined) return
    if (found.twice) return this.#offTheRecord.#resumeShared(found)
    const wanted: LoggedWish = { ...found.wanted, jumps: true, resumes: found.origin }
    const attempt = this.#runLog.begin(wanted)
    const resumed = await this.#runLog.attempt(attempt, () => this.#resume(found))
    if (resumed !== undefined) await this.hold(attempt, wanted, resumed)
  }

  async #resumeShared(found: PassedLease): Promise<void> {
    const attempt = this.#runLog.begin(found.wanted)
    try {
      const lease = await this.#resume(found)
      this.#runLog.got(attempt, lease)
      await this.hold(attempt, found.wanted, lease)
    } catch (error) {
      // This client already holds the lease.
      if ((error as { code?: string }).code !== 'INVALID') this.#runLog.unlessExpected(error)
    }
  }

  /** The same holder without a log: the checker does not judge what it does. */
  get #offTheRecord(): Holder {
    const setting: Setting = { ...this.#setting, events: [], passed: [] }
    return new Holder(setting, new RunLog(setting))
  }

  /** Resumes a lease, and retries with the same ttl if there is no answer. */
  async #resume(found: PassedLease, tries = 3): Promise<Lease> {
    const { locks, world } = this.#setting
    const { proof, ttlMs } = found
    try {
      const options = { ...(ttlMs !== undefined && { ttl: ttlMs }), ...(world.chance(0.3) && { heartbeat: 'manual' }) }
      return await locks.resume(proof, options as AcquireOptions)
    } catch (error) {
      if (tries === 1 || (error as { code?: string }).code !== 'UNAVAILABLE') throw error
      return this.#resume(found, tries - 1)
    }
  }
}
