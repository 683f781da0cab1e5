import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

/** A step of a job of GitHub Actions. */
export interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}

/** A job. */
export interface Job {
  readonly permissions?: Readonly<Record<string, string>>
  readonly steps?: readonly Step[]
  readonly uses?: string
  readonly needs?: string | readonly string[]
  readonly strategy?: { readonly matrix: Readonly<Record<string, readonly string[]>> }
  readonly if?: string
}

/** A file of .github/workflows. */
export interface Workflow {
  readonly on: Readonly<Record<string, unknown>>
  readonly permissions: unknown
  readonly concurrency: Readonly<Record<string, unknown>>
  readonly jobs: Readonly<Record<string, Job>>
}

export function workflow(name: string): Workflow {
  return parse(readFileSync(`.github/workflows/${name}.yml`, 'utf8')) as Workflow
}
