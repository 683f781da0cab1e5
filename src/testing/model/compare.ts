import { isDeepStrictEqual } from 'node:util'
import type { ListedClaim, ClaimStatus, Succession } from '../../core/contract/driver.ts'

/** Compares what a driver says about one key with what the model says. Answers with the difference, if there is one. */
export class ModelComparison {
  readonly fences = new FenceMap()
  readonly #toleranceMs: number
  readonly #countsRenewals: boolean

  constructor(toleranceMs: number, countsRenewals = true) {
    this.#toleranceMs = toleranceMs
    this.#countsRenewals = countsRenewals
  }

  status(model: ClaimStatus, driver: ClaimStatus | undefined): string | undefined {
    if (driver === undefined) return 'there was no answer'
    if (model.state !== driver.state) return `it should be ${model.state}, not ${driver.state}`
    if (model.state === 'held' && driver.state === 'held') {
      return (
        this.#time('ttlMs', model.ttlMs, driver.ttlMs) ??
        same('leaving', model.leaving, driver.leaving) ??
        this.#succession(model.after, driver.after) ??
        this.fences.match(model.fence, driver.fence)
      )
    }
    if (model.state === 'waiting' && driver.state === 'waiting') {
      return (
        same('ahead', model.ahead, driver.ahead) ??
        this.#time('ttlMs', model.ttlMs, driver.ttlMs) ??
        this.#time('againMs', model.againMs, driver.againMs)
      )
    }
    if (model.state === 'absent' && driver.state === 'absent') {
      return same('reason', model.reason, driver.reason) ?? same('detail', model.detail, driver.detail)
    }
    return undefined
  }

  /** Both lists without claims that are over; `now` is each side's own. */
  claims(
    model: readonly ListedClaim[],
    modelNow: number,
    driver: readonly ListedClaim[],
    driverNow: number,
  ): string | undefined {
    const ids = (claims: readonly ListedClaim[]) => [
      ...claims
        .filter(({ state }) => state === 'held')
        .map(({ id }) => `held ${id}`)
        .toSorted(),
      ...claims.filter(({ state }) => state === 'waiting').map(({ id }) => `waiting ${id}`),
    ]
    const wrong = same('claims', ids(model), ids(driver))
    if (wrong !== undefined) return wrong
    if (driver.some(({ state }, index) => state === 'held' && driver[index - 1]?.state === 'waiting')) {
      return 'a holder is listed behind a waiter'
    }
    for (const claim of model) {
      const listed = driver.find(({ id }) => id === claim.id) as ListedClaim
      const difference = this.#claim(claim, modelNow, listed, driverNow)
      if (difference !== undefined) return `claim ${claim.id}: ${difference}`
    }
    return undefined
  }

  #claim(model: ListedClaim, modelNow: number, driver: ListedClaim, driverNow: number): string | undefined {
    for (const name of constantFields) {
      const wrong = same(name, model[name], driver[name])
      if (wrong !== undefined) return wrong
    }
    if (this.#countsRenewals) {
      const wrong = same('renewalCount', model.renewalCount, driver.renewalCount)
      if (wrong !== undefined) return wrong
    }
    for (const name of timeFields) {
      if (name === 'acquiredAt' && model.acquiredAt === 0 && driver.acquiredAt === 0) continue
      const wrong = this.#time(name, model[name] - modelNow, driver[name] - driverNow)
      if (wrong !== undefined) return wrong
    }
    if (model.state === 'waiting') return same('fence', 0, driver.fence) ?? same('acquiredAt', 0, driver.acquiredAt)
    return this.fences.match(model.fence, driver.fence)
  }

  #succession(model: Succession | undefined, driver: Succession | undefined): string | undefined {
    if (model === undefined || driver === undefined) return same('after', model, driver)
    return (
      same('after.how', model.how, driver.how) ??
      same('after.cause', model.cause, driver.cause) ??
      same('after.runner', model.runner, driver.runner) ??
      this.fences.match(model.fence, driver.fence)
    )
  }

  #time(name: string, modelMs: number, driverMs: number): string | undefined {
    if (Math.abs(modelMs - driverMs) <= this.#toleranceMs) return undefined
    return `${name} should be ${modelMs}, not ${driverMs}`
  }
}

const constantFields = [
  'mode',
  'limit',
  'range',
  'priority',
  'ttlMs',
  'graceMs',
  'maxHoldMs',
  'leaving',
  'runner',
] as const

const timeFields = ['enteredAt', 'acquiredAt', 'lastHeartbeat', 'expiresAt'] as const

function same(name: string, model: unknown, driver: unknown): string | undefined {
  if (isDeepStrictEqual(model, driver)) return undefined
  return `${name} should be ${JSON.stringify(model)}, not ${JSON.stringify(driver)}`
}

/**
 * Which fence of the driver stands for which of the model. Their values differ, since every store counts from where it
 * likes; their order must not.
 */
export class FenceMap {
  readonly #pairs: { readonly model: number; readonly driver: number }[] = []

  /** Records that the two fences stand for the same grant; returns the contradiction, if there is one. */
  match(model: number, driver: number): string | undefined {
    if (!Number.isSafeInteger(driver) || driver <= 0) return `fence ${driver} is no safe integer above zero`
    for (const pair of this.#pairs) {
      if (Math.sign(model - pair.model) === Math.sign(driver - pair.driver)) continue
      if (driver === pair.driver) return `fence ${driver} was given to two claims`
      if (model === pair.model) return `the fence of a claim changed from ${pair.driver} to ${driver}`
      return `fence ${driver} is out of order: it should be ${model < pair.model ? 'below' : 'above'} ${pair.driver}`
    }
    this.#pairs.push({ model, driver })
    return undefined
  }
}
