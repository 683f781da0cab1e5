import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { LeaseholdError } from '../../core/errors.ts'

/** Where a page ended: how the store says it, and which key of the store's next page was the last to be shown. */
export interface Place {
  readonly after: string | undefined
  readonly shown: string | undefined
}

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/**
 * Places as callers carry them from page to page. A store's own place may be the name of a lock that the caller must not see, so
 * it is sealed, with a key that lives as long as the server.
 */
export class Cursors {
  readonly #key = randomBytes(32)

  seal({ after, shown }: Place): string {
    const nonce = randomBytes(nonceBytes)
    const sealing = createCipheriv(cipher, this.#key, nonce)
    const sealed = Buffer.concat([sealing.update(JSON.stringify([after ?? null, shown ?? null])), sealing.final()])
    return Buffer.concat([nonce, sealing.getAuthTag(), sealed]).toString('base64url')
  }

  open(cursor: string): Place {
    const bytes = Buffer.from(cursor, 'base64url')
    try {
      const opening = createDecipheriv(cipher, this.#key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
      opening.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
      const text = Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()])
      const [after, shown] = JSON.parse(String(text)) as [string | null, string | null]
      return { after: after ?? undefined, shown: shown ?? undefined }
    } catch {
      const advice = 'It may be older than the server. Begin without one.'
      throw new LeaseholdError('INVALID', `after is no place that this server has given. ${advice}`)
    }
  }
}
