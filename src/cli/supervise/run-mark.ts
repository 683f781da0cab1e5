import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'

/**
 * The variable by which a run knows the processes that it started: they hand it down to theirs, also to those that leave
 * the process group, the session or their parent. A run inside a run adds its own mark behind that of the outer one.
 */
export const markVariable = 'LEASEHOLD_RUN'

const markForm = /^[0-9a-f]{32}(?:,[0-9a-f]{32})*$/
const markEntry = new RegExp(`(?:^|\0)${markVariable}=([0-9a-f,]+)(?:\0|$)`)

/** A mark that no other run has. */
export function newMark(): string {
  return randomBytes(16).toString('hex')
}

/** What the variable is for the processes of a run, inside the runs that `outer` names. */
export function marksInside(outer: string | undefined, mark: string): string {
  return outer !== undefined && markForm.test(outer) ? `${outer},${mark}` : mark
}

/**
 * The runs that a process belongs to, the innermost last. Undefined where it does not say now: it belongs to another user,
 * or is in the middle of becoming another program. Only Linux shows the environment of a process.
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
