/** The columns of a claim's row that are text: `runner`, `terms` and `succession`. See schema.sql. */
import type { Claim, EvictionCause, Runner, Succession } from '../../core/contract/driver.ts'
import { shortRunner, wholeRunner } from '../../core/rule/short-runner.ts'
import type { SqliteRow } from './database.ts'
import { damagedRow } from './faults.ts'

/** What a claim asks for. Absent: as for a plain exclusive lock, or as in the column of that name. */
interface Terms extends Omit<Partial<Claim>, 'detached'> {
  /** Null: the claim left it out, and a renewal has set the column since. */
  readonly detached?: boolean | null
}

const noTerms: Terms = {}

/** What the other columns do not say of a claim whose `ttlMs` and `detached` in force are these; null: nothing. */
export function termsText(claim: Claim, ttlMs: number, detached: boolean): string | null {
  const terms: { [Field in keyof Terms]: Terms[Field] | undefined } = {
    mode: unless('exclusive', claim.mode),
    limit: claim.limit,
    range: claim.range,
    replaces: claim.replaces,
    priority: unless(0, claim.priority),
    wait: unless(true, claim.wait),
    evict: claim.evict,
    staleMs: claim.staleMs,
    ttlMs: unless(ttlMs, claim.ttlMs),
    graceMs: unless(0, claim.graceMs),
    maxHoldMs: claim.maxHoldMs,
    detached: claim.detached === impliedBy(detached) ? undefined : (claim.detached ?? null),
  }
  const text = JSON.stringify(terms)
  return text === '{}' ? null : text
}

/** The claim of a row of `held` or `waiting`, as it was asked for. */
export function readClaim(row: SqliteRow): Claim {
  const key = row['key'] as string
  const terms = row['terms'] === null ? noTerms : readTerms(key, row['terms'] as string)
  return {
    id: row['id'] as string,
    key,
    mode: terms.mode ?? 'exclusive',
    limit: terms.limit,
    range: terms.range,
    replaces: terms.replaces,
    priority: terms.priority ?? 0,
    wait: terms.wait ?? true,
    evict: terms.evict,
    staleMs: terms.staleMs,
    ttlMs: terms.ttlMs ?? (row['ttl_ms'] as number),
    graceMs: terms.graceMs ?? 0,
    maxHoldMs: terms.maxHoldMs,
    detached: terms.detached === undefined ? impliedBy(row['detached'] === 1) : (terms.detached ?? undefined),
    runner: readRunner(key, row['runner'] as string),
  }
}

function readTerms(key: string, text: string): Terms {
  return read('terms', key, text, (value) => {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
    throw new Error(`${text} is no object`)
  })
}

/** The runner in a column of this key's row. */
export function readRunner(key: string, text: string): Runner {
  return read('runner', key, text, wholeRunner)
}

/** The column `succession`. */
export function successionText({ how, cause, fence, runner }: Succession): string {
  return `["${how}",${fence},${shortRunner(runner)}${cause === undefined ? '' : `,"${cause}"`}]`
}

/** The previous holder of a row of `held`, if its claim was given one. */
export function readSuccession(row: SqliteRow): Succession | undefined {
  if (row['succession'] === null) return undefined
  return read('succession', row['key'] as string, row['succession'] as string, (value) => {
    const [how, fence, runner, cause] = value as [Succession['how'], number, unknown, EvictionCause?]
    return { how, ...(cause !== undefined && { cause }), fence, runner: wholeRunner(runner) }
  })
}

function read<Meaning>(column: string, key: string, text: string, meaningOf: (value: unknown) => Meaning): Meaning {
  try {
    return meaningOf(JSON.parse(text))
  } catch (error) {
    throw damagedRow(`The ${column} of a claim on ${JSON.stringify(key)}`, error)
  }
}

/** What a claim most likely asked for if `detached` is this: false is mostly left out. */
function impliedBy(detached: boolean): true | undefined {
  return detached ? true : undefined
}

function unless<Wish>(usual: Wish, wish: Wish): Wish | undefined {
  return wish === usual ? undefined : wish
}
