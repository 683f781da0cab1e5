/** A turn as a comment: a claim that stepped back behind others takes a new place in the queue. It is never edited. */
import { commentText, documentIn, nameText, objectOf, textOf, wholeNumberOf } from './comment-text.ts'

/** The content of a turn comment. The comment's own id is the new place. */
export interface TurnRecord {
  readonly key: string
  /** The comment of the claim. */
  readonly claim: number
  /** The last place that the claim has given up: this one and all lower ones count no more, whatever the claim's comment says. */
  readonly left: number
  readonly worker: string
}

const version = 2

/** The text of a turn comment. */
export function turnText({ key, claim, left, worker }: TurnRecord): string {
  const sentence = `↪️ **${nameText(worker)}** made room for a more urgent claim, and is in line again from here.`
  return commentText('turn', sentence, {
    turn: { comment_id: claim, left, worker_id: worker },
    leasehold: { version, key },
  })
}

/** Reads a turn comment; undefined if it is none, or broken. */
export function turnIn(body: string): TurnRecord | undefined {
  const document = documentIn('turn', body)
  const turn = objectOf(document?.['turn'])
  const own = objectOf(document?.['leasehold'])
  const key = textOf(own?.['key'])
  const [claim, left] = [wholeNumberOf(turn?.['comment_id']), wholeNumberOf(turn?.['left'])]
  if (key === undefined || own?.['version'] !== version || claim === undefined || left === undefined) return undefined
  return { key, claim, left, worker: textOf(turn?.['worker_id']) ?? '?' }
}
