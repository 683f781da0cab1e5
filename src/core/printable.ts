/**
 * Characters that control a terminal: escape sequences, line breaks, text direction. Names, hosts, reasons and metadata come from
 * the store, that is from anybody who may write to it, so no message and no output shows these as they are.
 */
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** The text with every control character escaped, as in `\u001b`. JSON keeps its meaning. */
export function printable(text: string): string {
  return text.replace(steering, (character) => {
    let escaped = ''
    for (let index = 0; index < character.length; index += 1) {
      escaped += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`
    }
    return escaped
  })
}
