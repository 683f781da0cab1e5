import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import type { KeyDocument } from '../document/key-document.ts'

/** A claim as it is written down. When it ends is not: its marker says whether it has. */
type StoredClaim = Omit<ClaimRecord, 'expiresAt' | 'died'> & {
  /** Where whoever looks after it hears news. */
  readonly channel?: string | undefined
}

type StoredKey = Omit<KeyDocument, 'claims'> & { readonly claims: readonly StoredClaim[] }

/** A document as it was read, with what is kept beside its records. */
export interface ReadKey {
  /** Undefined: there is none. */
  readonly document: KeyDocument | undefined
  readonly channels: ReadonlyMap<string, string>
}

const noKey: ReadKey = { document: undefined, channels: new Map() }

/** Made of what nobody can read, so that whoever tries is told that it is damaged. */
const damaged: ReadKey = { document: { version: 1, lastFence: Number.NaN, claims: [] }, channels: new Map() }

export function encodeEtcdDocument(document: KeyDocument, channelOf: (id: string) => string | undefined): string {
  const claims = document.claims.map(({ expiresAt: _end, died: _died, ...rest }): StoredClaim => {
    return { ...rest, channel: channelOf(rest.claim.id) }
  })
  return JSON.stringify({ ...document, claims } satisfies StoredKey)
}

/** The document out of its text. Whether it makes sense is for `decodeKey` to judge, but for what is no JSON at all. */
export function decodeEtcdDocument(value: Buffer | undefined): ReadKey {
  if (value === undefined) return noKey
  try {
    const stored = JSON.parse(value.toString()) as StoredKey | null
    if (typeof stored !== 'object' || stored === null) return damaged
    if (!Array.isArray(stored.claims)) return { document: stored as unknown as KeyDocument, channels: new Map() }
    const channels = new Map<string, string>()
    const claims = (stored.claims as readonly (StoredClaim | null)[]).map((one) => {
      if (one?.claim === undefined) return one as unknown as ClaimRecord
      const { channel, ...record } = one
      if (channel !== undefined) channels.set(record.claim.id, channel)
      return { ...record, expiresAt: 0 }
    })
    return { document: { ...stored, claims }, channels }
  } catch {
    return damaged
  }
}
