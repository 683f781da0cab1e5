import type { KeyPage, ListQuery, ClaimStatus, HeldStatus } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { Cleanup } from './cleanup.ts'
import { Grants } from './grants.ts'
import type { Pages } from './listing.ts'
import {
  latestSuccession,
  majorityOf,
  mergedAbsence,
  noMajority,
  type Answers,
  type MajorityVerdict,
} from './verdict.ts'
import type { Answered, Node } from './node.ts'
import { FanOut } from './fan-out.ts'

/** What the requests of one quorum share: its nodes, what is under way, and what has been granted. */
export class Quorum {
  readonly nodes: readonly Node[]
  readonly majority: number
  readonly environment: Environment
  readonly fanOut: FanOut
  readonly cleanup: Cleanup
  readonly grants = new Grants()
  readonly #driftRate: number
  readonly #answerWithinMs: number | undefined

  constructor(
    nodes: readonly Node[],
    environment: Environment,
    terms: { readonly driftRate: number; readonly answerWithinMs: number | undefined },
  ) {
    this.nodes = nodes
    this.majority = majorityOf(nodes.length)
    this.environment = environment
    this.fanOut = new FanOut(environment)
    this.cleanup = new Cleanup(environment)
    this.#driftRate = terms.driftRate
    this.#answerWithinMs = terms.answerWithinMs
  }

  /** How long a node may take: a small part of the lease, or what the user said. */
  answerWithinMs(ttlMs: number): number {
    const withinMs = this.#answerWithinMs ?? Math.min(1000, Math.max(50, ttlMs / 10))
    return Math.min(withinMs, ttlMs / 2)
  }

  /** The end of a lease of which a majority had `leftMs` left when asked at `sentAt`. */
  heldUntil(sentAt: number, leftMs: number): number {
    return sentAt + leftMs * (1 - this.#driftRate)
  }

  /** Sends each node a request, and gives what their answers come to. */
  ask<Outcome>(question: {
    readonly nodes?: readonly Node[]
    readonly withinMs: number
    readonly ask: (node: Node, answered: Answered) => void
    readonly onAnswer?: (node: Node, status: ClaimStatus) => void
    readonly judge: (answers: Answers) => Outcome | undefined
  }): Promise<Outcome> {
    const { nodes = this.nodes, withinMs } = question
    const silence = (node: Node): ClaimStatus => ({ state: 'unknown', error: timedOut(node, withinMs) })
    return this.fanOut.ask<ClaimStatus, Outcome>({ ...question, nodes, silence })
  }

  /** The answer to a claim or renewal that a majority holds until `until`. Undefined: nothing is left of the lease. */
  heldStatus(held: readonly HeldStatus[], fence: number, until: number): HeldStatus | undefined {
    const ttlMs = Math.floor(until - this.environment.now())
    return ttlMs > 0 ? { state: 'held', fence, ttlMs, after: latestSuccession(held) } : undefined
  }

  /** A verdict as a status; but `held` stays a word, as its status takes more than the answers. */
  outcome(verdict: MajorityVerdict, answers: Answers): 'held' | ClaimStatus | undefined {
    if (verdict === 'absent') return mergedAbsence(answers)
    return verdict === 'unknown' ? this.unknown(answers) : verdict
  }

  unknown(answers: Answers): ClaimStatus {
    return noMajority(answers, this.nodes.length)
  }

  /** Lists all nodes. Rejects unless a majority answers: fewer cannot say what is held. */
  async read(query: ListQuery, withinMs: number): Promise<Pages> {
    const pages = new Map<Node, KeyPage>()
    const failed = await this.fanOut.ask<KeyPage | ClaimStatus, Answers>({
      nodes: this.nodes,
      withinMs,
      ask: (node, answered) => {
        node.list(query, withinMs).then(answered, (error: unknown) => answered({ state: 'unknown', error }))
      },
      silence: (node) => ({ state: 'unknown', error: timedOut(node, withinMs) }),
      onAnswer: (node, answer) => {
        if ('keys' in answer) pages.set(node, answer)
      },
      judge: (answers) =>
        answers.includes(undefined)
          ? undefined
          : answers.flatMap((answer) => (answer === undefined || 'keys' in answer ? [] : [answer])),
    })
    if (pages.size >= this.majority) return pages
    const status = this.unknown(failed)
    throw status.state === 'unknown' ? status.error : status
  }
}

function timedOut(node: Node, withinMs: number): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', `${node.name} has not answered within ${Math.round(withinMs)} ms.`, {
    reason: 'no-answer',
  })
}
