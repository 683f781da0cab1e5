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

/** Acquire options with the task the lock is for: `locks.acquire(issue(7), forTask({ complexity: 5 }))`. */
export function forTask(taskInfo: TaskInfo): { readonly metadata: { readonly taskInfo: TaskInfo } } {
  return { metadata: { taskInfo } }
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
