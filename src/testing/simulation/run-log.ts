import type { Lease } from '../../api/lease.ts'
import { handleOf } from '../../api/lease/lease-handle.ts'
import type { Locks } from '../../api/locks.ts'
import { internalsOf } from '../../api/client/locks-internals.ts'
import type { HistoryEvent, LoggedWish } from '../history/event.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { World } from './world.ts'

/** The worker whose log it is. */
export interface RunLogSetting {
  readonly world: World
  readonly process: SimulatedProcess
  readonly locks: Locks
  /** The process, in the history. */
  readonly client: string
  readonly name: string
  readonly events: HistoryEvent[]
  /** Whether only this worker uses the client: then the client's `queued` events are this worker's. */
  readonly alone: boolean
}

type Untimed = HistoryEvent extends infer Each ? (Each extends HistoryEvent ? Omit<Each, 'at'> : never) : never

/** Errors that an acquire may end with in such weather; any other is a fault. */
const expected = new Set(['TIMEOUT', 'ABORTED', 'UNAVAILABLE', 'DEADLOCK', 'NOT_HELD', 'LOST'])

/** Writes to the history what one worker does, and until when it trusts its leases. */
export class RunLog {
  readonly #setting: RunLogSetting
  /** What it holds, by key and fence. */
  readonly #held = new Map<string, { readonly attempt: string; readonly lease: Lease }>()
  #turns = 0
  #asking: string | undefined

  constructor(setting: RunLogSetting) {
    this.#setting = setting
    setting.locks.on('renewed', (lease) => {
      const held = this.#held.get(violationName(lease))
      if (held === undefined) return
      this.deliver({ type: 'renewed', attempt: held.attempt, deadline: this.deadlineOf(held.lease) })
    })
    if (!setting.alone) return
    setting.locks.on('waiting', () => {
      if (this.#asking !== undefined) this.deliver({ type: 'queued', attempt: this.#asking })
    })
  }

  begin(wanted: LoggedWish): string {
    const { client, name } = this.#setting
    const attempt = `${name}/${(this.#turns += 1)}`
    this.#asking = attempt
    this.deliver({ type: 'acquire', client, attempt, ...wanted })
    return attempt
  }

  /** Begins several attempts that are one call: which of them waits is not known. */
  beginAll(all: readonly LoggedWish[]): readonly string[] {
    const attempts = all.map((wanted) => this.begin(wanted))
    this.#asking = undefined
    return attempts
  }

  async attempt(attempt: string, ask: () => Promise<Lease>): Promise<Lease | undefined> {
    try {
      const lease = await ask()
      this.got(attempt, lease)
      return lease
    } catch (error) {
      this.refused(attempt, error)
      return undefined
    }
  }

  unlessExpected(error: unknown): void {
    const { code = '' } = error as { code?: string }
    if (!expected.has(code) && !(code === 'CLOSED' && internalsOf(this.#setting.locks, 'simulate').client.closed))
      throw error
  }

  refused(attempt: string, error: unknown): void {
    this.unlessExpected(error)
    this.deliver({ type: 'refused', attempt })
  }

  got(attempt: string, lease: Lease): void {
    this.#asking = undefined
    this.#held.set(violationName(lease), { attempt, lease })
    this.deliver({ type: 'granted', attempt, fence: lease.fence, deadline: this.deadlineOf(lease) })
    lease.signal.addEventListener('abort', () => this.deliver({ type: 'lost', attempt }))
  }

  /** From here on the lease is not trusted. */
  ends(attempt: string, lease: Lease): void {
    this.#held.delete(violationName(lease))
    this.deliver({ type: 'release', attempt })
  }

  /** The client is about to be closed, which lets go of all it has. */
  endsAll(): void {
    for (const { attempt, lease } of this.#held.values()) this.ends(attempt, lease)
  }

  async letGo(attempt: string, lease: Lease): Promise<void> {
    this.ends(attempt, lease)
    await lease.release()
    this.deliver({ type: 'released', attempt })
  }

  /** When the lease can no longer be trusted, by true time. */
  deadlineOf(lease: Lease): number {
    const { world, process } = this.#setting
    const { askAgain, ttlMs } = handleOf(lease).claimRuntime.state
    // A renewal queued behind the one under way may be for a shorter ttl. Sending it shortens the trust without an event.
    const leftMs = askAgain ? Math.min(lease.remainingMs, ttlMs) : lease.remainingMs
    return world.now + leftMs / process.rate
  }

  deliver(event: Untimed): void {
    this.#setting.events.push({ at: this.#setting.world.now, ...event })
  }
}

/** Fences of different keys may be equal. */
function violationName({ key, fence }: Pick<Lease, 'key' | 'fence'>): string {
  return `${key} ${fence}`
}
