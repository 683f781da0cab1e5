import type { Duration } from '../../core/time/duration.ts'
import type { CompleteOptions, Task, TaskOptions } from './task.ts'

/** Which tasks a work loop may claim: ids, or objects with an `id` or an id that `idOf` names. */
export type WorkItems<Item> = Iterable<Item> | AsyncIterable<Item>

/** What a source is told: how many tasks the loop can begin now, and when to give up looking. */
export interface WorkRequest {
  readonly free: number
  readonly signal: AbortSignal
}

/** Shortest and longest pause of a work loop that finds nothing to do. */
export interface WorkPause {
  /** @default '100ms' */
  readonly min?: Duration | undefined
  /** @default '10s' */
  readonly max?: Duration | undefined
}

/** The options of `locks.work`. Those of `locks.claim` apply to every task. */
export interface WorkOptions<Item> extends TaskOptions, CompleteOptions {
  /**
   * Finds tasks that are not done, most urgent first. Called again after each round; items are taken from it as handlers become free, so it
   * may be a cursor or a generator. Items that another worker has, or has completed, are skipped.
   */
  readonly source: (request: WorkRequest) => WorkItems<Item> | PromiseLike<WorkItems<Item>>
  /**
   * The id of an item in its queue.
   *
   * @default the item itself if it is text, else its `id`
   */
  readonly idOf?: ((item: Item) => string) | undefined
  /**
   * How many handlers run at once.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined
  /**
   * The pause after a round without a task, doubled from `min` to `max`. Also how long this loop leaves a task alone whose handler threw
   * or released it.
   *
   * @default { min: '100ms', max: '10s' }
   */
  readonly pause?: WorkPause | undefined
  /** Stops the loop, as `stop()` does. */
  readonly signal?: AbortSignal | undefined
  /**
   * How long `stop()` and `locks.close()` wait for running handlers. Then their signals fire, and their tasks are given back.
   *
   * @default '10s'
   */
  readonly stopWithin?: Duration | undefined
  /**
   * Is called with every error of a handler, of the source (no item) and of the store.
   *
   * @default a warning, by the logger if there is one, else by the process
   */
  readonly onError?: ((error: unknown, item: Item | undefined) => unknown) | undefined
}

/** A claimed task, as a handler gets it. */
export interface Job<Item> {
  readonly item: Item
  readonly task: Task
  /** Pass it with everything the task writes: a worker that was replaced has a lower one. */
  readonly fence: number
  /** Aborts when the task is lost and another worker may have it, and when the loop can wait no longer for its handler. */
  readonly signal: AbortSignal
}

/**
 * Does one task. When it resolves, the task is completed, unless the handler has completed or released it. When it rejects, the task is given
 * back, and may be claimed again.
 */
export type JobHandler<Item> = (job: Job<Item>) => unknown

/** A running work loop. */
export interface WorkLoop extends AsyncDisposable {
  /** How many handlers run now. */
  readonly running: number
  /** Resolves when the loop has stopped. Never rejects. */
  readonly stopped: Promise<void>
  /** Claims no more, and waits for running handlers for as long as `stopWithin` says. Repeatable. Never rejects. */
  stop(): Promise<void>
}
