/** A comment as GitHub has it. Times are GitHub's own, in milliseconds, and only to the whole second. */
export interface Comment {
  /** GitHub's ids only grow: they are the queue, and the fence. */
  readonly id: number
  readonly issue: number
  readonly author: string
  readonly body: string
  readonly createdAt: number
  readonly updatedAt: number
}

/** GitHub tells times in whole seconds, rounded down: what it says may be this much too early. */
export const roundingMs = 1000
