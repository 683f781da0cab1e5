import { claimIn, claimCommentText, type CommentRecord } from '../protocol/claim-comment.ts'
import { documentIn, objectOf, textOf } from '../protocol/comment-text.ts'

/**
 * A cache of your own that the driver keeps up to date with the claims this process holds, so that `status` need not ask
 * GitHub. It decides nothing: a mirror that is wrong, slow or broken affects no lock.
 */
export interface Mirror {
  set(key: string, value: string, options: { readonly namespace: string; readonly ttl: number }): unknown
  get(key: string, options: { readonly namespace: string }): unknown
  delete(key: string, options: { readonly namespace: string }): unknown
}

/** A claim and the account that wrote it. */
interface MirroredClaim extends CommentRecord {
  readonly assignee: string | undefined
}

const namespace = 'distributed-locks'

/** Writes to the mirror, and ignores its errors. @internal */
export class MirrorKeeper {
  readonly #mirror: Mirror | undefined

  constructor(mirror: Mirror | undefined) {
    this.#mirror = mirror
  }

  put({ issue, author, record }: { issue: number; author: string; record: CommentRecord }): void {
    const document = documentIn('claim', claimCommentText(record))
    const value = JSON.stringify({ ...document, assignee: author })
    this.#try((mirror) => mirror.set(nameOf(issue), value, { namespace, ttl: record.ttlMs }))
  }

  /** Deletes the entry of an issue, unless it is another claim's by now. */
  drop(issue: number, claim: string): void {
    this.#try(async (mirror) => {
      const kept = await this.read(issue)
      if (kept === undefined || kept.id === claim) await mirror.delete(nameOf(issue), { namespace })
    })
  }

  /** The mirrored claim of an issue; undefined if it is missing or invalid. */
  async read(issue: number): Promise<MirroredClaim | undefined> {
    try {
      const value: unknown = await this.#mirror?.get(nameOf(issue), { namespace })
      if (typeof value !== 'string') return undefined
      const record = claimIn(`<!-- leasehold:claim -->\n\`\`\`json\n${value}\n\`\`\``)
      const assignee = textOf(objectOf(JSON.parse(value))?.['assignee'])
      return record && { ...record, assignee }
    } catch {
      return undefined
    }
  }

  #try(work: (mirror: Mirror) => unknown): void {
    const mirror = this.#mirror
    if (mirror === undefined) return
    void (async () => work(mirror))().catch(() => {})
  }
}

function nameOf(issue: number): string {
  return `lock:issue-${issue}`
}
