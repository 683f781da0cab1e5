import { keyOf } from '../../core/batcher.ts'
import type { Claim, Request, Runner } from '../../core/driver.ts'

/** What a claim asks for beyond the ordinary, in the names of the columns of `claims`. */
type ClaimRow = Readonly<Record<string, string | number | boolean | undefined>>

/** A request as the function `send` reads it. */
interface RequestRow {
  readonly op: Request['op']
  readonly key: string
  readonly id?: string
  readonly ttl_ms?: number
  readonly fence?: number | undefined
  readonly reason?: string
  readonly plain?: boolean | undefined
  readonly tries?: boolean | undefined
  readonly max_hold_ms?: number | undefined
  readonly runner?: string | undefined
  readonly claim?: ClaimRow | undefined
  readonly detached?: boolean | undefined
}

/** A batch as the function `send` takes it, or `send_one` if it is a single request. */
export interface Batch {
  /** The requests in the order in which they are sent: by key, and as asked within a key. */
  readonly requests: readonly Request[]
  /** Where each of them stood in the order asked; undefined if nothing had to move. */
  readonly places: readonly number[] | undefined
  /** The arguments of the function. */
  readonly values: readonly unknown[]
}

export function batchOf(asked: readonly Request[], sender: string): Batch {
  const [only] = asked
  if (asked.length === 1 && only !== undefined) return single(only, sender)
  const places = isSorted(asked) ? undefined : sortedPlaces(asked)
  const requests = places?.map((place) => asked[place] as Request) ?? asked
  const usualRunner = requests.find((request) => request.op === 'claim')?.claim.runner
  const plain = { claim: 0, renew: 0, release: 0, evict: 0 }
  const rows = requests.map((request, index) => {
    const alone = !sameKey(request, requests[index - 1]) && !sameKey(request, requests[index + 1])
    const row = requestRow(request, alone, usualRunner)
    if (row.plain === true) plain[row.op] += 1
    return row
  })
  const runner = usualRunner === undefined ? null : runnerText(usualRunner)
  const counts = [rows.length, plain.claim, plain.renew, plain.release]
  return { requests, places, values: [JSON.stringify(rows), runner, sender, ...counts] }
}

function single(request: Request, sender: string): Batch {
  const { op, key, id, ttl_ms, fence, reason, plain, tries, max_hold_ms, runner, claim, detached } = requestRow(
    request,
    true,
    undefined,
  )
  const wanted = claim === undefined ? null : JSON.stringify(claim)
  const fields = [op, key, id, ttl_ms, fence, reason, plain, tries, max_hold_ms, runner, wanted, detached, sender]
  return { requests: [request], places: undefined, values: fields.map((field) => field ?? null) }
}

function requestRow(request: Request, alone: boolean, usualRunner: Runner | undefined): RequestRow {
  const plain = alone || undefined
  switch (request.op) {
    case 'claim': {
      const { claim } = request
      const { key, id, limit, replaces, wait, evict, runner } = claim
      return {
        op: 'claim',
        key,
        id,
        ttl_ms: whole(claim.ttlMs),
        plain: (replaces === undefined && (limit === undefined || limit > 0) && plain) || undefined,
        tries: (!wait && evict === undefined && replaces === undefined) || undefined,
        max_hold_ms: whole(claim.maxHoldMs),
        runner: runner === usualRunner ? undefined : runnerText(runner),
        claim: beyondTheOrdinary(claim),
      }
    }
    case 'renew': {
      const { key, id, ttlMs, fenceFloor: fence, detached } = request
      const ordinary = fence === undefined && detached === undefined
      return { op: 'renew', key, id, ttl_ms: whole(ttlMs), fence, detached, plain: ordinary ? plain : undefined }
    }
    case 'release':
      return { op: 'release', key: request.key, id: request.id, plain }
    case 'evict':
      return { op: 'evict', key: request.key, fence: request.fence, reason: request.reason }
  }
}

/** Undefined for the claim that nearly everybody makes: exclusive, waiting, and nothing more. */
function beyondTheOrdinary(claim: Claim): ClaimRow | undefined {
  const row: ClaimRow = {
    exclusive: claim.mode === 'exclusive' ? undefined : false,
    share_limit: claim.limit,
    range_start: claim.range?.start,
    range_end: claim.range?.end,
    replaces: claim.replaces,
    priority: claim.priority === 0 ? undefined : claim.priority,
    waits: claim.wait ? undefined : false,
    detached: claim.detached === true ? true : undefined,
    evict: claim.evict,
    stale_ms: whole(claim.staleMs),
    grace_ms: claim.graceMs === 0 ? undefined : whole(claim.graceMs),
    max_hold_ms: whole(claim.maxHoldMs),
  }
  for (const name in row) if (row[name] !== undefined) return row
  return undefined
}

const texts = new WeakMap<Runner, string>()

/** A client's claims mostly share one runner: written down once. */
function runnerText(runner: Runner): string {
  let text = texts.get(runner)
  if (text === undefined) texts.set(runner, (text = JSON.stringify(runner)))
  return text
}

function sameKey(one: Request, other: Request | undefined): boolean {
  return other !== undefined && keyOf(one) === keyOf(other)
}

function isSorted(requests: readonly Request[]): boolean {
  for (let index = 1; index < requests.length; index += 1) {
    if (keyOf(requests[index - 1] as Request) > keyOf(requests[index] as Request)) return false
  }
  return true
}

/** Batches lock their keys in this order, so that no two wait for each other. */
function sortedPlaces(requests: readonly Request[]): number[] {
  const key = (place: number): string => keyOf(requests[place] as Request)
  return [...requests.keys()].toSorted((one, other) => (key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : 0))
}

/** The store counts in whole milliseconds. */
function whole(milliseconds: number): number
function whole(milliseconds: number | undefined): number | undefined
function whole(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : Math.ceil(milliseconds)
}
