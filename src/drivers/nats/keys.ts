/** Keys as tokens of NATS subjects: a token has no dots, spaces or wildcards, and KV tools take only some letters. */

const plain = /^[\w-]$/
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The token of a key. A byte that is no ASCII letter, digit, `-` or `_` is written as `=XX`: at most 3 kB, where NATS takes 4. */
export function tokenOfKey(key: string): string {
  if (/^[\w-]+$/.test(key)) return key
  let token = ''
  for (const byte of encoder.encode(key)) {
    const character = String.fromCharCode(byte)
    token += plain.test(character) ? character : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return token
}

/** The key of a token; undefined: the token is none of ours. */
export function keyOfToken(token: string): string | undefined {
  const bytes: number[] = []
  for (const [part, hex] of token.matchAll(/=([\dA-F]{2})|./gs)) {
    if (hex === undefined && !plain.test(part)) return undefined
    bytes.push(hex === undefined ? part.charCodeAt(0) : Number.parseInt(hex, 16))
  }
  try {
    return decoder.decode(Uint8Array.from(bytes))
  } catch {
    return undefined
  }
}
