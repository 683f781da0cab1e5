import { LeaseholdError } from '../errors.ts'

const idBytes = 16

/**
 * Makes unguessable names of 32 hex digits. Randomness is fetched for `poolSize` names at a time, as each call for it is
 * slow. Not before the first name: an edge worker has no randomness while it is being loaded.
 */
export function randomIds(poolSize: number): () => string {
  const pool = new Uint8Array(poolSize * idBytes)
  const digits = hexDigits(pool)
  let used = pool.length
  return () => {
    if (used === pool.length) {
      fillWithRandomBytes(pool)
      used = 0
    }
    used += idBytes
    return digits(used - idBytes, used)
  }
}

function fillWithRandomBytes(pool: Uint8Array<ArrayBuffer>): void {
  const { crypto: source } = globalThis as { readonly crypto?: Partial<typeof crypto> }
  if (source?.getRandomValues !== undefined) return void source.getRandomValues(pool)
  const message = 'This runtime has no crypto.getRandomValues, and without it no id is unguessable.'
  throw new LeaseholdError('UNSUPPORTED', message)
}

/** Writes bytes in hex. Node's buffers are the quickest at that. */
function hexDigits(bytes: Uint8Array<ArrayBuffer>): (from: number, to: number) => string {
  if (typeof Buffer === 'function') {
    const buffer = Buffer.from(bytes.buffer)
    return (from, to) => buffer.toString('hex', from, to)
  }
  return (from, to) => Array.from(bytes.subarray(from, to), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
