import { objectOf, textOf } from './comment-text.ts'

/** The task that a claim is for. All of it is written into the comment, for everybody to read. */
export interface TaskInfo {
  readonly complexity?: number
  /** In words: `45min`. */
  readonly estimated_duration?: string
  /** `bug-fix`, `review` … */
  readonly task_type?: string
  /** In words: it does not move a claim in its queue. */
  readonly priority?: string
}

/** The worker and the node of one acquisition, where a process acts for several. Its comment publishes both. */
export interface TaskWorker {
  /** @default the driver's `workerId` */
  readonly workerId?: string | undefined
  /** @default the driver's `nodeId` */
  readonly nodeId?: string | undefined
}

/**
 * Acquire options with the task that the lock is for, and who does it.
 *
 * @example
 * ```ts
 * import { forTask } from 'leasehold/github'
 *
 * const options = forTask({ complexity: 5 }, { workerId: 'worker-local-1', nodeId: 'node-abc123' })
 * console.log(options.metadata) // pass `options` to acquire
 * ```
 */
export function forTask(
  taskInfo: TaskInfo,
  worker?: TaskWorker,
): { readonly metadata: { readonly taskInfo: TaskInfo; readonly taskWorker?: TaskWorker } } {
  return { metadata: { taskInfo, ...(worker !== undefined && { taskWorker: worker }) } }
}

/** The worker in a claim's metadata: its known fields, if they are text. @internal */
export function taskWorkerIn(value: unknown): TaskWorker {
  const given = objectOf(value)
  const [workerId, nodeId] = [textOf(given?.['workerId']), textOf(given?.['nodeId'])]
  return { workerId, nodeId }
}

/** The task in a claim's metadata or in a comment: its known fields, if they have the right type. @internal */
export function taskInfoIn(value: unknown): TaskInfo | undefined {
  const given = objectOf(value)
  if (given === undefined) return undefined
  const { complexity } = given
  const info: Record<string, string | number> = {}
  if (typeof complexity === 'number' && Number.isFinite(complexity)) info['complexity'] = complexity
  for (const name of ['estimated_duration', 'task_type', 'priority'] as const) {
    const text = textOf(given[name])
    if (text !== undefined) info[name] = text
  }
  return Object.keys(info).length === 0 ? undefined : info
}
