import { Alarm, type Sleeper } from '../../core/alarm.ts'
import { pauseMs, type Backoff } from '../../core/backoff.ts'
import type { Request, Standing } from '../../core/driver.ts'
import type { Environment, Timer } from '../../core/environment.ts'
import type { Answered, Node } from './node.ts'

const retry: Backoff = { attempts: Infinity, minMs: 50, maxMs: 2000, factor: 2, jitter: 0.2 }

/**
 * Releases on single nodes, in the background, until the node has answered or would have forgotten the claim anyway.
 * A claim that no majority granted must not stand in the way of the next.
 */
export class Clearing {
  readonly #environment: Environment
  readonly #alarm: Alarm
  readonly #jobs = new Set<Job>()
  #idle: (() => void) | undefined
  #stopped = false

  constructor(environment: Environment) {
    this.#environment = environment
    this.#alarm = new Alarm(environment)
  }

  /** `answered` hears the first answer, which may be that nobody knows. */
  release(node: Node, key: string, id: string, forMs: number, answered?: Answered): void {
    const until = this.#environment.now() + forMs
    const job = new Job(node, { op: 'release', key, id }, (standing) => {
      answered?.(standing)
      answered = undefined
      this.#answered(job, standing, until)
    })
    this.#jobs.add(job)
    job.wake()
  }

  /** Gives what is under way a moment to arrive, then stops. */
  async stop(withinMs: number): Promise<void> {
    let timer: Timer | undefined
    if (this.#jobs.size > 0) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve
        timer = this.#environment.timer(withinMs, resolve)
        timer.keepAlive(true)
      })
    }
    timer?.cancel()
    this.#stopped = true
    this.#alarm.clear()
  }

  #answered(job: Job, standing: Standing, until: number): void {
    job.failures += 1
    const nextAt = this.#environment.now() + pauseMs(retry, job.failures, this.#environment.random())
    if (standing.state === 'unknown' && nextAt < until && !this.#stopped) return this.#alarm.set(job, nextAt)
    this.#jobs.delete(job)
    if (this.#jobs.size === 0) this.#idle?.()
  }
}

class Job implements Sleeper {
  alarmAt = Infinity
  alarmSlot = -1
  failures = 0
  readonly #node: Node
  readonly #request: Request
  readonly #answered: Answered

  constructor(node: Node, request: Request, answered: Answered) {
    this.#node = node
    this.#request = request
    this.#answered = answered
  }

  wake(): void {
    this.#node.ask(this.#request, this.#answered)
  }
}
