/** A fault to plant in the source, and the suites that must find it. */
export interface Mutant {
  /** From the root of the repository: TypeScript, Lua or SQL. */
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  /**
   * The suites that must find it, the fastest first: `unit/claim-state` is `test/unit/claim-state.test.ts`, and the words behind ` > ` are of the
   * titles of the tests to run.
   */
  readonly foundBy: readonly [string, ...string[]]
  /** Why no test can tell the faulty code from ours. */
  readonly equivalent?: string
}

/** Mutants by what they do, in plain words. */
export type Mutants = Readonly<Record<string, Mutant>>

/** The source with the fault in it. Throws if the place of the fault is not exactly one. */
export function planted(name: string, { file, find, replace }: Mutant, source: string): string {
  const places = source.split(find).length - 1
  if (places === 1) return source.split(find).join(replace)
  throw new Error(
    `mutant "${name}": its text occurs ${places} times in ${file}, not once. Bring prove/mutants up to date:\n${find}`,
  )
}
