const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const openBracket = 0x5b
const openBrace = 0x7b

/**
 * Whether a text of JSON has more values in it than that. Reads bytes only: to parse, check and keep a value takes hundreds of times as
 * long as to count it, and a small value costs as much as a long one. Text that is no JSON may be counted in any way. @internal
 */
export function hasMoreParts(json: Uint8Array, most: number): boolean {
  // Every value but the last takes two bytes at least.
  if (json.length <= 2 * most) return false
  let parts = 0
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at]
    if (byte === quote) {
      at += 1
      while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1
    } else if (byte === comma || byte === openBracket || byte === openBrace) {
      parts += 1
      if (parts > most) return true
    }
  }
  return false
}
