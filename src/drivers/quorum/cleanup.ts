import { TimerQueue, type TimerTask } from '../../core/time/timer-queue.ts'
import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import type { Environment, Timer } from '../../core/time/environment.ts'
import type { Answered, Node } from './node.ts'

const retry: Backoff = { attempts: Infinity, minMs: 50, maxMs: 2000, factor: 2, jitter: 0.2 }

/**
 * Releases claims on single nodes, in the background, until the node has answered or the claim has expired there: a claim that no
 * majority granted must not block the next.
 */
export class Cleanup {
  readonly #environment: Environment
  readonly #timers: TimerQueue
  #underWay = 0
  #idle: (() => void) | undefined
  #stopped = false

  constructor(environment: Environment) {
    this.#environment = environment
    this.#timers = new TimerQueue(environment)
  }

  /** Tries for `forMs`. `answered` gets the first answer, which may be `unknown`. */
  release(node: Node, key: string, id: string, forMs: number, answered?: Answered): void {
    const until = this.#environment.now() + forMs
    const release = new NodeRelease(() => {
      this.#underWay += 1
      node.ask({ op: 'release', key, id }, (status) => {
        this.#underWay -= 1
        if (release.failures === 0) answered?.(status)
        if (status.state === 'unknown') this.#tryAgain(release, until)
        if (this.#underWay === 0) this.#idle?.()
      })
    })
    release.wake()
  }

  /** Tries no more, and waits for the answers under way, at most `withinMs`. */
  async stop(withinMs: number): Promise<void> {
    this.#stopped = true
    this.#timers.clear()
    if (this.#underWay === 0) return
    let timer: Timer | undefined
    await new Promise<void>((resolve) => {
      this.#idle = resolve
      timer = this.#environment.timer(withinMs, resolve)
      timer.keepAlive(true)
    })
    timer?.cancel()
  }

  #tryAgain(release: NodeRelease, until: number): void {
    release.failures += 1
    const at = this.#environment.now() + pauseMs(retry, release.failures, this.#environment.random())
    if (at < until && !this.#stopped) this.#timers.set(release, at)
  }
}

/** One release of one claim on one node. */
class NodeRelease implements TimerTask {
  timerSlot = -1
  failures = 0
  readonly wake: () => void

  constructor(wake: () => void) {
    this.wake = wake
  }
}
