import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import type { KeyDocument } from '../document/key-document.ts'

/** A claim as it is stored. Its end is not: its marker tells whether the claim has ended. */
type StoredClaim = Omit<ClaimRecord, 'expiresAt' | 'died'> & {
  /** The channel of the driver that keeps the claim. */
  readonly channel?: string | undefined
}

type StoredKey = Omit<KeyDocument, 'claims'> & { readonly claims: readonly StoredClaim[] }

/** A document as it was read, with the channels of its claims. */
export interface ReadKey {
  /** Undefined: there is none. */
  readonly document: KeyDocument | undefined
  readonly channels: ReadonlyMap<string, string>
}

const noKey: ReadKey = { document: undefined, channels: new Map() }

/** A document that `decodeKey` refuses as damaged. */
const damaged: ReadKey = { document: { version: 1, lastFence: Number.NaN, claims: [] }, channels: new Map() }

/** The text of a document, without the ends of its claims. */
export function encodeEtcdDocument(document: KeyDocument, channelOf: (id: string) => string | undefined): string {
  const claims = document.claims.map(({ expiresAt: _end, died: _died, ...rest }): StoredClaim => {
    return { ...rest, channel: channelOf(rest.claim.id) }
  })
  return JSON.stringify({ ...document, claims } satisfies StoredKey)
}

/** The document out of its text. `decodeKey` judges whether it makes sense; a text that is not JSON is damaged here already. */
export function decodeEtcdDocument(value: Buffer | undefined): ReadKey {
  if (value === undefined) return noKey
  try {
    const stored = JSON.parse(value.toString()) as StoredKey | null
    if (typeof stored !== 'object' || stored === null) return damaged
    if (!Array.isArray(stored.claims)) return { document: stored as unknown as KeyDocument, channels: new Map() }
    const channels = new Map<string, string>()
    const claims = (stored.claims as readonly (StoredClaim | null)[]).map((storedClaim) => {
      if (storedClaim?.claim === undefined) return storedClaim as unknown as ClaimRecord
      const { channel, ...record } = storedClaim
      if (channel !== undefined) channels.set(record.claim.id, channel)
      return { ...record, expiresAt: 0 }
    })
    return { document: { ...stored, claims }, channels }
  } catch {
    return damaged
  }
}
