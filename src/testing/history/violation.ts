import type { Attempt } from './attempt.ts'

export type ViolationKind =
  /** Claims that exclude each other, or more than the limit allows, were certainly held at the same time. */
  | 'overlap'
  /** A fence was given twice. */
  | 'fence-repeated'
  /** A later grant has a lower fence, or a higher fence was held before a lower one was let go. */
  | 'fence-order'
  /** A fence is missing for which no unfinished acquire accounts. */
  | 'fence-gap'
  /** A claim that came after another had queued was granted first. */
  | 'unfair'

/** One thing a history shows that must not be. */
export interface Violation {
  readonly kind: ViolationKind
  readonly key: string
  /** The attempts concerned, the offending one last. */
  readonly attempts: readonly string[]
  readonly message: string
}

/** How a claim is named to people. @internal */
export function violationName(attempt: Attempt): string {
  const { grant, client, mode, range } = attempt
  const where = range === undefined ? '' : ` of [${range.start}, ${range.end})`
  return `${client} (${mode}${where}, fence ${grant?.fence ?? 'none'}, attempt ${attempt.id})`
}
