import { LeaseholdError } from '../core/errors.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { checkFence, superseded } from './superseded.ts'

/** The options of `mongoGuard`. */
export interface MongoGuardOptions {
  /**
   * The field that keeps the fence; a dotted path for a nested one.
   *
   * @default 'fence'
   */
  readonly field?: string | undefined
}

const mongoNames: OptionNames<MongoGuardOptions> = { field: true }

/** The result of `updateOne`, `replaceOne`, `deleteOne` or `findOneAndUpdate` (the document, or null). */
export type MongoResult =
  | { readonly matchedCount: number; readonly upsertedCount?: number }
  | { readonly deletedCount: number }
  | object
  | null

/** An update document: operators with their fields. */
export type MongoUpdate = Readonly<Record<`$${string}`, Readonly<Record<string, unknown>>>>

/**
 * Keeps stale holders out of documents. The fence is a field of the document itself, so that one update checks it, raises
 * it and writes, atomically.
 */
export interface MongoGuard {
  /** Your filter, and the condition that no later holder has written. A document without a fence passes. */
  filter<Filter extends object>(filter: Filter, fence: number): { $and: [Filter, Record<string, unknown>] }
  /** Your update, with the fence added to its `$set`. */
  update<Update extends MongoUpdate>(update: Update, fence: number): Update & { $set: Record<string, unknown> }
  /**
   * An update that only raises the fence. With `findOneAndUpdate` it also reads, in the same step: no earlier holder can
   * write the document any more. Pass the result to {@link check}.
   */
  raise(fence: number): { $set: Record<string, unknown> }
  /** Throws LOST (`superseded`) if nothing was written: a later holder has written, or there is no document. */
  check(result: MongoResult, resource: string, fence: number): void
}

class MongoFences implements MongoGuard {
  readonly #field: string

  constructor(options: MongoGuardOptions = {}) {
    checkOptions(options, mongoNames, 'mongoGuard')
    const { field = 'fence' } = options
    if (typeof field !== 'string' || field === '' || field.startsWith('$') || field.includes('\0')) {
      throw new LeaseholdError('INVALID', `${JSON.stringify(field)} is not a field name.`)
    }
    this.#field = field
  }

  filter<Filter extends object>(filter: Filter, fence: number): { $and: [Filter, Record<string, unknown>] } {
    return { $and: [filter, { [this.#field]: { $not: { $gt: checkFence(fence) } } }] }
  }

  update<Update extends MongoUpdate>(update: Update, fence: number): Update & { $set: Record<string, unknown> } {
    if (Array.isArray(update)) {
      throw new LeaseholdError(
        'INVALID',
        'The guard cannot add its fence to a pipeline. Pass an update with operators.',
      )
    }
    return { ...update, $set: { ...update['$set'], [this.#field]: checkFence(fence) } }
  }

  raise(fence: number): { $set: Record<string, unknown> } {
    return this.update({}, fence)
  }

  check(result: MongoResult, resource: string, fence: number): void {
    if (written(result) === 0) throw superseded(resource, fence)
  }
}

/**
 * A guard for the documents of MongoDB.
 *
 * @example
 * ```ts
 * import { mongoGuard } from 'leasehold/guards'
 * import { MongoClient } from 'mongodb'
 *
 * const guard = mongoGuard()
 * const orders = new MongoClient('mongodb://127.0.0.1:27017').db('shop').collection('orders')
 * await locks.run('orders/42', async ({ fence }) => {
 *   const update = guard.update({ $set: { state: 'paid' } }, fence)
 *   guard.check(await orders.updateOne(guard.filter({ number: 42 }, fence), update), 'orders/42', fence)
 * })
 * ```
 */
export function mongoGuard(options?: MongoGuardOptions): MongoGuard {
  return new MongoFences(options)
}

function written(result: MongoResult): number {
  if (result === null) return 0
  if (typeof result !== 'object')
    throw new LeaseholdError('INVALID', 'Pass the result of the update as the driver returned it.')
  const { matchedCount, upsertedCount, deletedCount, value, ok } = result as Readonly<Record<string, unknown>>
  // An unacknowledged write (`w: 0`) has no counts, so the guard cannot tell whether it was refused.
  if ('acknowledged' in result && result.acknowledged === false) {
    throw new LeaseholdError(
      'INVALID',
      'The write was not acknowledged, so it cannot be checked. Use w: 1 or majority.',
    )
  }
  if (typeof matchedCount === 'number') return matchedCount + (typeof upsertedCount === 'number' ? upsertedCount : 0)
  if (typeof deletedCount === 'number') return deletedCount
  // `findOneAndUpdate` with `includeResultMetadata` wraps the document.
  if (ok !== undefined && 'lastErrorObject' in result) return value === null ? 0 : 1
  return 1
}
