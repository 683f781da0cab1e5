/**
 * One `send` over documents that can be compared and swapped: the rule is run on what was read, and what comes of it is
 * written back if nobody else wrote meanwhile.
 */
import { admit } from '../../core/rule/admission.ts'
import type { RecordChange, NotifiedClaim } from '../../core/rule/claim-record.ts'
import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import { keyOf } from '../../core/contract/requests.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { fenceFloor } from '../../core/rule/fence.ts'
import { decodeKey, encodeKey, type KeyDocument } from './key-document.ts'
import type { KeyState } from '../../core/rule/key-state.ts'

/** A document as read, with what the store needs to notice that it has changed since. */
export interface Loaded<Revision> {
  readonly document: KeyDocument | undefined
  readonly revision: Revision
  /** The document was guessed, not read: good for a swap, which finds out, and for nothing else. */
  readonly isGuess?: boolean
  /** This key could not be read: it alone has no answer. */
  readonly error?: unknown
}

export interface Swap<Revision> {
  readonly key: string
  readonly document: KeyDocument
  /** The revision the document was read at. */
  readonly revision: Revision
  /** Nobody holds or waits: the store may remove the document once `mayForget` allows it for its last fence. */
  readonly idle: boolean
  /** Claims that the change concerns, besides those of the requests: for stores that notify by the document itself. */
  readonly notifications: readonly NotifiedClaim[]
}

/** The part of a store that one `send` needs. */
export interface DocumentSwapper<Revision> {
  /**
   * Reads the keys, each as it is now, and the store's clocks: `now` in whole milliseconds, `wall` since 1970. Both clocks are
   * read after `load` was called: an older reading, kept from an earlier call, would end leases before their holders stop.
   */
  load(keys: readonly string[]): Promise<{
    readonly now: number
    readonly wall: number
    readonly loaded: readonly Loaded<Revision>[]
  }>
  /** Writes each document whose revision is unchanged. `unknown`: the document may or may not have been written. */
  swap(swaps: readonly Swap<Revision>[]): Promise<readonly ('swapped' | 'conflict' | { readonly unknown: unknown })[]>
  /**
   * Whether the store needs no write for this change: a renewal, where leases are kept beside the documents. False: the change
   * must be written.
   */
  absorbs?(key: string, change: RecordChange): boolean
  /** Answers in one round trip the requests that need no rule, such as a claim on an idle key; undefined: the rule must decide. */
  fast?(requests: readonly Request[]): Promise<readonly (ClaimStatus | undefined)[]>
  /** Notifies other clients. A hint: it may fail or be lost. */
  notify?(notifications: readonly (NotifiedClaim & { readonly key: string })[]): void
}

/** Pauses after lost races, and after how many a key is given up. */
const races: Backoff = { attempts: 50, minMs: 1, maxMs: 100, factor: 1.5, jitter: 0.5 }

/** Requests for one key, with their places in the batch. */
interface KeyWork {
  readonly key: string
  readonly requests: { readonly request: Request; readonly place: number }[]
}

/** Carries out requests by reading, running the rule, and swapping. Rejects only if nothing was written. @internal */
export async function sendBySwapping<Revision>(
  store: DocumentSwapper<Revision>,
  requests: readonly Request[],
  environment: Environment,
): Promise<readonly ClaimStatus[]> {
  const answers: (ClaimStatus | undefined)[] = [...((await store.fast?.(requests)) ?? requests.map(() => undefined))]
  let work = group(requests, answers)
  for (let round = 1; work.length > 0; round += 1) {
    try {
      work = await race(store, work, answers)
    } catch (error) {
      // Requests of an earlier round may have been carried out, and their answers count.
      if (answers.every((status) => status === undefined)) throw error
      return answers.map((status) => status ?? { state: 'unknown', error })
    }
    if (work.length === 0) break
    if (round >= races.attempts) {
      for (const { key, requests: lost } of work) for (const { place } of lost) answers[place] = crowded(key)
      break
    }
    await pause(environment, pauseMs(races, round, environment.random()))
  }
  return answers.map((status) => status ?? crowded(''))
}

/** One try for each key. Answers the requests of the keys it could settle and returns the others. */
async function race<Revision>(
  store: DocumentSwapper<Revision>,
  work: readonly KeyWork[],
  answers: (ClaimStatus | undefined)[],
): Promise<KeyWork[]> {
  const { now, wall, loaded } = await store.load(work.map(({ key }) => key))
  const again: KeyWork[] = []
  const swaps: (Swap<Revision> & { readonly work: KeyWork; readonly statuses: ClaimStatus[] })[] = []
  for (const [index, keyWork] of work.entries()) {
    const { document, revision, isGuess = false, error: unread } = loaded[index] as Loaded<Revision>
    try {
      if (unread !== undefined) throw unread
      const { state, statuses, notifications, changed } = judge(store, keyWork, document, now, wall)
      if (changed) {
        swaps.push({
          key: keyWork.key,
          document: encodeKey(state),
          revision,
          idle: state.idle,
          work: keyWork,
          statuses,
          notifications,
        })
      } else if (isGuess) {
        again.push(keyWork)
      } else {
        answer(keyWork, statuses, answers)
      }
    } catch (error) {
      // A record that cannot be read is no reason to refuse the requests of other keys.
      if (work.length === 1) throw error
      answerUnknown(keyWork, error, answers)
    }
  }
  if (swaps.length === 0) return again
  const results = await swapped(store, swaps)
  for (const [index, swap] of swaps.entries()) {
    const result = results[index]
    if (result === 'swapped') {
      answer(swap.work, swap.statuses, answers)
      if (swap.notifications.length > 0)
        store.notify?.(swap.notifications.map((notified) => ({ ...notified, key: swap.key })))
    } else if (result === 'conflict') {
      again.push(swap.work)
    } else {
      const error = result?.unknown
      const { entering, others } = parted(swap.work, error)
      answerUnknown(entering, error, answers)
      if (others.requests.length > 0) again.push(others)
    }
  }
  return again
}

/** Swaps. A store that is full may reject as a whole, though requests that need no room could be carried out. */
async function swapped<Revision>(
  store: DocumentSwapper<Revision>,
  swaps: readonly (Swap<Revision> & { readonly work: KeyWork })[],
): ReturnType<DocumentSwapper<Revision>['swap']> {
  try {
    return await store.swap(swaps)
  } catch (error) {
    if (swaps.every(({ work }) => parted(work, error).others.requests.length === 0)) throw error
    return swaps.map(() => ({ unknown: error }))
  }
}

/**
 * The requests of a write that failed, and those of them to be carried out without the rest: what there is no room for must not keep
 * the claims that are in from renewing.
 */
function parted({ key, requests }: KeyWork, error: unknown): { readonly entering: KeyWork; readonly others: KeyWork } {
  const isFull = error instanceof LeaseholdError && error.reason === 'full'
  const entering = isFull ? requests.filter(({ request }) => request.op === 'claim') : []
  if (entering.length === 0) return { entering: { key, requests }, others: { key, requests: [] } }
  return {
    entering: { key, requests: entering },
    others: { key, requests: requests.filter((each) => !entering.includes(each)) },
  }
}

/** What the rule makes of a key's requests. */
function judge<Revision>(
  store: DocumentSwapper<Revision>,
  work: KeyWork,
  document: KeyDocument | undefined,
  now: number,
  wall: number,
): {
  readonly state: KeyState
  readonly statuses: ClaimStatus[]
  readonly notifications: NotifiedClaim[]
  readonly changed: boolean
} {
  const state = decodeKey(work.key, document)
  state.fenceFloor = fenceFloor(wall)
  const statuses: ClaimStatus[] = []
  const notifications: NotifiedClaim[] = []
  let changed = false
  for (const { request } of work.requests) {
    const verdict = admit(state, request, now)
    changed ||= verdict.changes.some((change) => store.absorbs?.(work.key, change) !== true)
    changed ||= verdict.lastFence !== state.lastFence || verdict.ended !== state.ended
    state.apply(verdict)
    statuses.push(verdict.status)
    for (const notified of verdict.notifications) notifications.push(notified)
  }
  return { state, statuses, notifications, changed }
}

function pause(environment: Environment, milliseconds: number): Promise<void> {
  return new Promise((resolve) => environment.timer(milliseconds, resolve).keepAlive(true))
}

function group(requests: readonly Request[], answers: readonly (ClaimStatus | undefined)[]): KeyWork[] {
  const byKey = new Map<string, KeyWork>()
  for (const [place, request] of requests.entries()) {
    if (answers[place] !== undefined) continue
    const key = keyOf(request)
    const work = byKey.get(key)
    if (work === undefined) byKey.set(key, { key, requests: [{ request, place }] })
    else work.requests.push({ request, place })
  }
  return [...byKey.values()]
}

function answer(work: KeyWork, statuses: readonly ClaimStatus[], answers: (ClaimStatus | undefined)[]): void {
  for (const [index, { place }] of work.requests.entries()) answers[place] = statuses[index]
}

function answerUnknown(work: KeyWork, error: unknown, answers: (ClaimStatus | undefined)[]): void {
  for (const { place } of work.requests) answers[place] = { state: 'unknown', error }
}

/** The answer after the last lost race: nothing was written, but the claim's status is not known. */
function crowded(key: string): ClaimStatus {
  const error = new LeaseholdError('UNAVAILABLE', `Too many clients change ${JSON.stringify(key)} at once.`, {
    reason: 'busy',
    key,
  })
  return { state: 'unknown', error }
}
