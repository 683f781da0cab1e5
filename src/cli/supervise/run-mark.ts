import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'

/**
 * The environment variable that marks the processes of a run. Processes inherit it even if they leave the process group, the
 * session or their parent. A nested run appends its own mark to that of the outer run.
 */
export const markVariable = 'LEASEHOLD_RUN'

const markForm = /^[0-9a-f]{32}(?:,[0-9a-f]{32})*$/
const markEntry = new RegExp(`(?:^|\0)${markVariable}=([0-9a-f,]+)(?:\0|$)`)

/** A mark that no other run has. */
export function newMark(): string {
  return randomBytes(16).toString('hex')
}

/** The value of the variable for the processes of a run nested in the runs of `outer`. */
export function marksInside(outer: string | undefined, mark: string): string {
  return outer !== undefined && markForm.test(outer) ? `${outer},${mark}` : mark
}

/**
 * The marks of the runs that a process belongs to, the innermost last. Undefined if its environment cannot be read: it belongs
 * to another user, or is inside `exec`. Only Linux shows the environment of a process.
 */
export function marksOf(pid: number): readonly string[] | undefined {
  let environment: string
  try {
    environment = readFileSync(`/proc/${pid}/environ`, 'latin1')
  } catch {
    return undefined
  }
  if (environment === '') return undefined
  return markEntry.exec(environment)?.[1]?.split(',') ?? []
}
