import type { Attempt } from './attempt.ts'

export type ViolationKind =
  /** Claims that exclude each other, or more than the limit allows, were certainly held at the same time. */
  | 'overlap'
  /** A fence was given twice. */
  | 'fence-repeated'
  /** A later grant has a lower fence, or a higher fence was held before a lower one was let go. */
  | 'fence-order'
  /** A fence is missing, and no unfinished acquire explains it. */
  | 'fence-gap'
  /** A claim that came after another had queued was granted first. */
  | 'unfair'

/** Something in a history that a correct lock never does. */
export interface Violation {
  readonly kind: ViolationKind
  readonly key: string
  /** The attempts concerned, the offending one last. */
  readonly attempts: readonly string[]
  readonly message: string
}

/** The name of an attempt in messages. @internal */
export function violationName(attempt: Attempt): string {
  const { grant, client, mode, range } = attempt
  const where = range === undefined ? '' : ` of [${range.start}, ${range.end})`
  return `${client} (${mode}${where}, fence ${grant?.fence ?? 'none'}, attempt ${attempt.id})`
}
