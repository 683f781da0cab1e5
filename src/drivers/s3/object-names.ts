import { sha256Hex } from './signature.ts'

/** The part of a name that is kept of a key that is too long. The longest key of S3 is 1024 bytes, our prefix 256 of them. */
const lettersMax = 640

/** The name of no key: what stands there shows whether the store honours conditions. */
export const probeName = 'probe'

const keysFolder = 'keys/'

/**
 * The name of a key's object below the prefix: letters, digits and `-` as they are, every other byte as `_XX`. So no name has a
 * slash, a dot or anything that a proxy or a URL library might rewrite, and a prefix of a key is a prefix of the name.
 */
export async function objectName(key: string): Promise<string> {
  const letters = lettersOf(key)
  if (letters.length <= lettersMax) return keysFolder + letters
  // `~` is in no other name.
  return `${keysFolder}${letters.slice(0, lettersMax)}~${await sha256Hex(key)}`
}

/** The key of such a name; undefined: the name does not tell, or is of something else. */
export async function keyOfName(name: string): Promise<string | undefined> {
  try {
    const key = decodeURIComponent(name.slice(keysFolder.length).replaceAll('_', '%'))
    return (await objectName(key)) === name ? key : undefined
  } catch {
    return undefined
  }
}

/** What the names of all keys with this prefix begin with. A long prefix has other keys there, too. */
export function namePrefix(keyPrefix: string): string {
  return keysFolder + lettersOf(keyPrefix).slice(0, lettersMax)
}

function lettersOf(key: string): string {
  return Array.from(new TextEncoder().encode(key), (byte) => lettersByByte[byte]).join('')
}

const lettersByByte = Array.from({ length: 256 }, (_, byte) => {
  const letter = String.fromCharCode(byte)
  return /[A-Za-z0-9-]/.test(letter) ? letter : `_${byte.toString(16).toUpperCase().padStart(2, '0')}`
})

/** A prefix as objects have it: it ends with a slash, so that no prefix is the beginning of another's names. */
export function normalPrefix(prefix: string): string {
  return prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`
}

/** What is wrong with a prefix; undefined if nothing is. */
export function prefixFault(prefix: string): string | undefined {
  if (new TextEncoder().encode(prefix).length > 256) return 'is longer than 256 bytes'
  if (!prefix.isWellFormed() || /\p{Cc}/u.test(prefix)) return 'has characters that no name of an object may have'
  const parts = normalPrefix(prefix).split('/').slice(0, -1)
  return parts.some((part) => ['', '.', '..'].includes(part)) ? 'has an empty part, or one of dots only' : undefined
}
