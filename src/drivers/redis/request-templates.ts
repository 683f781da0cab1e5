import type { Claim, Request, Runner } from '../../core/contract/driver.ts'
import { shortRunner } from '../../core/rule/short-runner.ts'
import { isPlain, isPlainRenewal } from '../kit/plain-claim.ts'

/** How many templates a request is compared with. */
const templatesCompared = 8

/**
 * The templates of a batch: op, ttl, runner and terms are sent once for all requests that share them. Most batches have
 * one or two templates.
 */
export class RequestTemplates {
  /** Five for each template. */
  readonly texts: string[] = []
  readonly #templates: RequestTemplate[] = []
  readonly #spareMs: number
  #last: RequestTemplate | undefined

  constructor(spareMs: number) {
    this.#spareMs = spareMs
  }

  get count(): number {
    return this.#templates.length
  }

  of(request: Request): RequestTemplate {
    switch (request.op) {
      case 'claim': {
        const { claim } = request
        return this.#template(claim.wait ? 'c' : 't', claim.ttlMs, claim.runner, claimTerms(claim))
      }
      case 'renew': {
        const { ttlMs, fenceFloor, detached } = request
        const terms = isPlainRenewal(request) ? '' : JSON.stringify([fenceFloor ?? false, detached ?? null])
        return this.#template('r', ttlMs, undefined, terms)
      }
      case 'release':
        return this.#template('d', 0, undefined, '')
      case 'withdraw':
        return this.#template('w', 0, undefined, '')
      case 'evict':
        return this.#template('e', 0, undefined, JSON.stringify(request.reason))
    }
  }

  #template(op: string, ttlMs: number, runner: Runner | undefined, terms: string): RequestTemplate {
    if (this.#last?.is(op, ttlMs, runner, terms) === true) return this.#last
    // Only the latest are compared: a template that is sent twice does no harm.
    const known = this.#templates.slice(-templatesCompared).find((template) => template.is(op, ttlMs, runner, terms))
    this.#last = known ?? this.#add(op, ttlMs, runner, terms)
    return this.#last
  }

  #add(op: string, ttlMs: number, runner: Runner | undefined, terms: string): RequestTemplate {
    const template = new RequestTemplate(this.count, op, ttlMs, runner, terms)
    this.#templates.push(template)
    const runnerText = runner === undefined ? '' : shortRunner(runner)
    this.texts.push(op, String(ttlMs), runnerText, terms, recordTtlOf(ttlMs, this.#spareMs))
    return template
  }
}

class RequestTemplate {
  /** Two characters: the template's number in its batch. */
  readonly number: string
  /** Whether the requests are plain claims. */
  readonly isPlainClaim: boolean
  readonly #op: string
  readonly #ttlMs: number
  readonly #runner: Runner | undefined
  readonly #terms: string

  constructor(index: number, op: string, ttlMs: number, runner: Runner | undefined, terms: string) {
    this.number = String.fromCharCode(33 + Math.floor(index / 90), 33 + (index % 90))
    this.isPlainClaim = runner !== undefined && terms === ''
    this.#op = op
    this.#ttlMs = ttlMs
    this.#runner = runner
    this.#terms = terms
  }

  is(op: string, ttlMs: number, runner: Runner | undefined, terms: string): boolean {
    return this.#op === op && this.#ttlMs === ttlMs && this.#runner === runner && this.#terms === terms
  }
}

/** All that a plain claim leaves out; empty for a plain claim. */
function claimTerms(claim: Claim): string {
  if (isPlain(claim)) return ''
  const { mode, limit, range, replaces, priority, evict, staleMs, graceMs, maxHoldMs, detached } = claim
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

/** How long Redis keeps the record of a claim: one ttl longer than the claim lasts. */
export function recordTtlOf(ttlMs: number, spareMs: number): string {
  return String(Math.ceil(2 * ttlMs) + spareMs)
}
