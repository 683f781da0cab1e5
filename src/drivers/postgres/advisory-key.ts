import { createHash } from 'node:crypto'

/**
 * The 64-bit key of a name: the first eight bytes of its SHA-256, as the signed number PostgreSQL wants, in decimal.
 * Frozen: two versions of Leasehold that disagreed would both hold the same lock.
 */
export function advisoryKey(name: string): string {
  return createHash('sha256').update(name, 'utf8').digest().readBigInt64BE(0).toString()
}
