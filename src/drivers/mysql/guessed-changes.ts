/**
 * Changes without a reading: one statement for claims on idle rows, one for the releases of rows that have that claim only, on rows that
 * this driver left so. Each changes a row if its revision is still the one that was written, and does then what the rule does at the
 * server's time. What they leave alone goes the long way.
 */
import type { Claim, ClaimStatus, Request } from '../../core/contract/driver.ts'
import { keyOf } from '../../core/contract/requests.ts'
import { admit } from '../../core/rule/admission.ts'
import { KeyState } from '../../core/rule/key-state.ts'
import type { MysqlGrant, MysqlGuess } from './statements.ts'
import { freshText } from './stored-document.ts'
import type { RecentRow } from './recent-rows.ts'

/** A request that may be carried out so, and its place in the batch. */
export type GuessedChange =
  | { readonly op: 'release'; readonly place: number; readonly guess: MysqlGuess; readonly until: number }
  | {
      readonly op: 'claim'
      readonly place: number
      readonly guess: MysqlGrant
      readonly claim: Claim
      readonly status: HeldStatus
    }

type HeldStatus = Extract<ClaimStatus, { state: 'held' }>

/** Longer documents, in bytes, go the long way: a statement has many. */
export const documentMax = 4096

/** The requests that may be carried out so. Several of one key keep their order only if the rule sees them all. */
export function guessedChanges(
  requests: readonly Request[],
  rowOf: (name: string) => RecentRow | undefined,
): readonly GuessedChange[] {
  const changes: GuessedChange[] = []
  const seen = new Set<string>()
  const repeated = new Set<string>()
  for (const [place, request] of requests.entries()) {
    const name = keyOf(request)
    if (seen.has(name)) repeated.add(name)
    seen.add(name)
    const row = rowOf(name)
    const change = row === undefined ? undefined : guessedChange(request, place, row)
    if (change !== undefined) changes.push(change)
  }
  return repeated.size === 0 ? changes : changes.filter(({ guess }) => !repeated.has(guess.name))
}

function guessedChange(
  request: Request,
  place: number,
  { revision: expected, sole }: RecentRow,
): GuessedChange | undefined {
  if (request.op === 'release') {
    const { key: name, id } = request
    return sole?.id === id ? { op: 'release', place, guess: { name, expected }, until: sole.expiresAt } : undefined
  }
  if (request.op !== 'claim' || sole !== undefined) return undefined
  const { claim } = request
  // Nothing in the answer but the fence depends on the time.
  const { status, changes } = admit(new KeyState(), request, anyTime)
  const granted = changes[0]?.after
  if (status.state !== 'held' || granted === undefined || changes.length > 1) return undefined
  const document = freshText(granted)
  if (Buffer.byteLength(document) > documentMax) return undefined
  return { op: 'claim', place, guess: { name: claim.key, expected, document }, claim, status }
}

const anyTime = 1_000_000
