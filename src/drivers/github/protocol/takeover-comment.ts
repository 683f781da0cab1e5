/** A takeover as a comment: it names the claims that it ends for good. */
import {
  clockText,
  commentText,
  documentIn,
  nameText,
  objectOf,
  textOf,
  timeText,
  wholeNumberOf,
} from './comment-text.ts'

/**
 * Why a claim was taken over. `expired`: not renewed within its ttl. `stale`: silent for longer than the new claim allows.
 * `forced`, `evicted`: on purpose. Only with `expired` the holder has certainly stopped: see `verdict.ts`.
 */
export type TakeoverCause = 'expired' | 'stale' | 'forced' | 'evicted'

/** A claim that a takeover ends. */
export interface EndedClaim {
  /** The id of the claim's comment. */
  readonly comment: number
  readonly worker: string
  readonly held: boolean
}

/** The content of a takeover comment. */
export interface TakeoverRecord {
  readonly key: string
  readonly by: string
  readonly cause: TakeoverCause
  /** The reason that the owners of the ended claims are told. */
  readonly reason: string
  readonly at: number
  readonly ends: readonly EndedClaim[]
  /** The comments of waiters that lose their places, and wait on. Version 1 does not read this: for it they stay in the way. */
  readonly displaces?: readonly number[] | undefined
}

const version = 1
const causes = new Set<unknown>(['expired', 'stale', 'forced', 'evicted'] satisfies TakeoverCause[])

/** The text of a takeover comment. */
export function takeoverText(record: TakeoverRecord): string {
  const { key, by, cause, reason, at, ends, displaces = [] } = record
  return commentText('takeover', sentenceOf(record), {
    takeover: {
      worker_id: by,
      cause,
      reason,
      taken_at: timeText(at),
      ends: ends.map(({ comment, worker, held }) => ({ comment_id: comment, worker_id: worker, held })),
      ...(displaces.length > 0 && { displaces }),
    },
    leasehold: { version, key },
  })
}

/** Reads a takeover comment; undefined if it is none, or broken. */
export function takeoverIn(body: string): TakeoverRecord | undefined {
  const document = documentIn('takeover', body)
  const takeover = objectOf(document?.['takeover'])
  const own = objectOf(document?.['leasehold'])
  const key = textOf(own?.['key'])
  if (takeover === undefined || key === undefined || own?.['version'] !== version) return undefined
  const { cause, ends, displaces = [] } = takeover
  if (!causes.has(cause) || !Array.isArray(ends) || !Array.isArray(displaces)) return undefined
  return {
    key,
    by: textOf(takeover['worker_id']) ?? '?',
    cause: cause as TakeoverCause,
    reason: textOf(takeover['reason']) ?? String(cause),
    at: 0,
    ends: ends.flatMap((entry: unknown) => {
      const given = objectOf(entry)
      const comment = wholeNumberOf(given?.['comment_id'])
      if (comment === undefined) return []
      return [{ comment, worker: textOf(given?.['worker_id']) ?? '?', held: given?.['held'] === true }]
    }),
    ...(displaces.length > 0 && { displaces: displaces.flatMap((entry: unknown) => wholeNumberOf(entry) ?? []) }),
  }
}

function sentenceOf({ by, cause, reason, at, ends }: TakeoverRecord): string {
  const names = ends.map(({ worker }) => `**${nameText(worker)}**`).join(', ')
  const author = `**${nameText(by)}**`
  const why: Readonly<Record<TakeoverCause, string>> = {
    expired: 'was not heard of for its whole lease',
    stale: 'has been silent for too long',
    forced: `had to make room for ${author}`,
    evicted: `was turned out (${nameText(reason)})`,
  }
  return `⏭️ ${names} ${why[cause]}: its claim is over, noted by ${author} at ${clockText(at)}.`
}
