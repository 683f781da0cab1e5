import { objectOf, textOf } from './comment-text.ts'

/** What a claim says about the work it is for. All of it is written into the comment, for everybody to read. */
export interface TaskInfo {
  readonly complexity?: number
  /** For people: `45min`. */
  readonly estimated_duration?: string
  /** `bug-fix`, `review` … */
  readonly task_type?: string
  /** For people too: it does not move a claim in its queue. */
  readonly priority?: string
}

/** Options of an acquisition that says what it is for: `locks.acquire(issue(7), forTask({ complexity: 5 }))`. */
export function forTask(taskInfo: TaskInfo): { readonly metadata: { readonly taskInfo: TaskInfo } } {
  return { metadata: { taskInfo } }
}

/** The task in a claim's metadata or in a comment: only what a task has, and only if it is of the right type. @internal */
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
