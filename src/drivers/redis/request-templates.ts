import type { Claim, Request, Runner } from '../../core/contract/driver.ts'
import { shortRunner } from '../../core/rule/short-runner.ts'

/**
 * What the requests of a batch have in common: op, ttl, runner and terms are sent once for all that share them. Most
 * batches are of one or two kinds.
 */
export class RequestTemplates {
  /** Five for each kind. */
  readonly texts: string[] = []
  readonly #templates: Kind[] = []
  readonly #spareMs: number
  #last: Kind | undefined

  constructor(spareMs: number) {
    this.#spareMs = spareMs
  }

  get count(): number {
    return this.#templates.length
  }

  of(request: Request): Kind {
    switch (request.op) {
      case 'claim': {
        const { claim } = request
        return this.#kind(claim.wait ? 'c' : 't', claim.ttlMs, claim.runner, claimTerms(claim))
      }
      case 'renew': {
        const { ttlMs, fenceFloor, detached } = request
        const plain = fenceFloor === undefined && detached === undefined
        return this.#kind('r', ttlMs, undefined, plain ? '' : JSON.stringify([fenceFloor ?? false, detached ?? null]))
      }
      case 'release':
        return this.#kind('d', 0, undefined, '')
      case 'withdraw':
        return this.#kind('w', 0, undefined, '')
      case 'evict':
        return this.#kind('e', 0, undefined, JSON.stringify(request.reason))
    }
  }

  #kind(op: string, ttlMs: number, runner: Runner | undefined, terms: string): Kind {
    if (this.#last?.is(op, ttlMs, runner, terms) === true) return this.#last
    // Of many kinds only the latest are looked through: a kind sent twice does no harm.
    const known = this.#templates.slice(-templatesRemembered).find((kind) => kind.is(op, ttlMs, runner, terms))
    this.#last = known ?? this.#add(op, ttlMs, runner, terms)
    return this.#last
  }

  #add(op: string, ttlMs: number, runner: Runner | undefined, terms: string): Kind {
    const kind = new Kind(this.count, op, ttlMs, runner, terms)
    this.#templates.push(kind)
    const runnerText = runner === undefined ? '' : shortRunner(runner)
    this.texts.push(op, String(ttlMs), runnerText, terms, recordTtlOf(ttlMs, this.#spareMs))
    return kind
  }
}

class Kind {
  /** Two characters that number it among those of its batch. */
  readonly number: string
  /** Whether its requests are claims that leave all wishes out. */
  readonly claimsPlainly: boolean
  readonly #op: string
  readonly #ttlMs: number
  readonly #runner: Runner | undefined
  readonly #terms: string

  constructor(place: number, op: string, ttlMs: number, runner: Runner | undefined, terms: string) {
    this.number = String.fromCharCode(33 + Math.floor(place / 90), 33 + (place % 90))
    this.claimsPlainly = runner !== undefined && terms === ''
    this.#op = op
    this.#ttlMs = ttlMs
    this.#runner = runner
    this.#terms = terms
  }

  is(op: string, ttlMs: number, runner: Runner | undefined, terms: string): boolean {
    return this.#op === op && this.#ttlMs === ttlMs && this.#runner === runner && this.#terms === terms
  }
}

const templatesRemembered = 8

/** All that a plain exclusive lock leaves out; empty for one. */
export function claimTerms(claim: Claim): string {
  const { mode, limit, range, replaces, priority, evict, staleMs, graceMs, maxHoldMs, detached } = claim
  if (
    mode === 'exclusive' &&
    priority === 0 &&
    graceMs === 0 &&
    range === undefined &&
    replaces === undefined &&
    evict === undefined &&
    maxHoldMs === undefined &&
    detached !== true
  ) {
    return ''
  }
  return JSON.stringify([
    priority,
    mode === 'shared',
    limit ?? false,
    range?.start ?? false,
    range?.end ?? false,
    replaces ?? false,
    evict ?? false,
    evict === 'stale' ? (staleMs ?? claim.ttlMs) : false,
    graceMs,
    maxHoldMs ?? false,
    detached === true,
  ])
}

/** For how long the record of a claim is kept: one ttl longer than the claim. */
export function recordTtlOf(ttlMs: number, spareMs: number): string {
  return String(Math.ceil(2 * ttlMs) + spareMs)
}
