import { createHash } from 'node:crypto'

const known = new Map<string, string>()
const knownMax = 10_000

/**
 * The 64-bit key of a name: the first eight bytes of its SHA-256, as the signed number PostgreSQL wants, in decimal.
 * Frozen: two versions of Leasehold that disagreed would both hold the same lock.
 */
export function advisoryKey(name: string): string {
  let key = known.get(name)
  if (key === undefined) {
    if (known.size >= knownMax) known.clear()
    known.set(name, (key = createHash('sha256').update(name, 'utf8').digest().readBigInt64BE(0).toString()))
  }
  return key
}
