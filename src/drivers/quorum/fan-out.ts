import { TimerQueue, type TimerTask } from '../../core/time/timer-queue.ts'
import type { Environment } from '../../core/time/environment.ts'
import type { Node } from './node.ts'

/** What is asked of several nodes at once. */
export interface Question<Answer, MajorityVerdict> {
  readonly nodes: readonly Node[]
  readonly withinMs: number
  ask(node: Node, answered: (answer: Answer) => void): void
  /** What counts as the answer of a node that timed out. */
  silence(node: Node): Answer
  /** Called with each answer, also those that come in time but after the verdict. */
  onAnswer?(node: Node, answer: Answer): void
  /**
   * The outcome, as soon as nothing still to come can change it. Answers are in the order of `nodes`, undefined where
   * none has come yet; when all have come there must be a verdict.
   */
  judge(answers: readonly (Answer | undefined)[]): MajorityVerdict | undefined
}

/** The questions under way. A node that does not answer delays a verdict only if the others do not suffice. */
export class FanOut {
  readonly #environment: Environment
  readonly #timers: TimerQueue
  readonly #open = new Set<OpenQuestion>()

  constructor(environment: Environment) {
    this.#environment = environment
    this.#timers = new TimerQueue(environment)
  }

  ask<Answer, MajorityVerdict>(question: Question<Answer, MajorityVerdict>): Promise<MajorityVerdict> {
    return new Promise((resolve) => {
      const running = new RunningQuestion(question, resolve, () => {
        this.#timers.set(running, Infinity)
        this.#open.delete(running)
      })
      this.#open.add(running)
      this.#timers.set(running, this.#environment.now() + question.withinMs)
      running.start()
    })
  }

  /** Ends every question as if its time were up. */
  close(): void {
    for (const running of this.#open) running.wake()
    this.#timers.clear()
  }
}

interface OpenQuestion extends TimerTask {
  wake(): void
}

class RunningQuestion<Answer, MajorityVerdict> implements OpenQuestion {
  timerSlot = -1
  readonly #question: Question<Answer, MajorityVerdict>
  readonly #answers: (Answer | undefined)[]
  readonly #resolve: (verdict: MajorityVerdict) => void
  readonly #over: () => void
  #missing: number

  constructor(
    question: Question<Answer, MajorityVerdict>,
    resolve: (verdict: MajorityVerdict) => void,
    over: () => void,
  ) {
    this.#question = question
    this.#answers = question.nodes.map(() => undefined)
    this.#missing = question.nodes.length
    this.#resolve = resolve
    this.#over = over
  }

  start(): void {
    if (this.#missing === 0) return this.#judge()
    for (const [index, node] of this.#question.nodes.entries()) {
      this.#question.ask(node, (answer) => this.#note(index, answer))
    }
  }

  /** The time is up: nodes without an answer have timed out. */
  wake(): void {
    for (const [index, node] of this.#question.nodes.entries()) {
      if (this.#answers[index] !== undefined) continue
      node.fellSilent()
      this.#note(index, this.#question.silence(node))
    }
  }

  #note(index: number, answer: Answer): void {
    if (this.#answers[index] !== undefined) return
    this.#answers[index] = answer
    this.#missing -= 1
    this.#question.onAnswer?.(this.#question.nodes[index] as Node, answer)
    this.#judge()
  }

  #judge(): void {
    const verdict = this.#question.judge(this.#answers)
    // Resolving twice changes nothing.
    if (verdict !== undefined) this.#resolve(verdict)
    if (this.#missing === 0) this.#over()
  }
}
