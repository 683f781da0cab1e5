import { createHash } from 'node:crypto'

const known = new Map<string, string>()
const knownMax = 10_000

/**
 * The 64-bit key of a name: the first eight bytes of its SHA-256, as the signed number PostgreSQL wants, in decimal. Advisory locks are
 * of the whole database, fences and names of a schema: so locks of another schema than `leasehold` have keys of their own.
 * Frozen: two versions of Leasehold that disagreed would both hold the same lock.
 */
export function advisoryKey(name: string, schema: string): string {
  const text = schema === 'leasehold' ? name : `${schema}\u0000${name}`
  let key = known.get(text)
  if (key === undefined) {
    if (known.size >= knownMax) known.clear()
    known.set(text, (key = createHash('sha256').update(text, 'utf8').digest().readBigInt64BE(0).toString()))
  }
  return key
}
