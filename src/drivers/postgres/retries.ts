import { retryingWithin } from '../kit/retrying.ts'
import { isWorthRepeating } from './faults.ts'

/** Attempts `work` again while the database says that it was only busy (deadlock, serialization failure, lock timeout). */
export function retrying<Result>(
  withinMs: number,
  work: (leftMs: number) => Promise<Result>,
  isWorthAnother: (error: unknown) => boolean = isWorthRepeating,
): Promise<Result> {
  return retryingWithin(withinMs, work, isWorthAnother)
}
