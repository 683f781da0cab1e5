/**
 * Characters that control a terminal: escape sequences, line breaks, text direction. Names, hosts and metadata come from the
 * store, that is from anybody who may write to it, so they are shown without these.
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

/** A text of several lines, each made {@link printable}. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** A copy of a plain value with every string made {@link printable}. */
export function printableCopy<Value>(value: Value): Value {
  return copy(value) as Value
}

function copy(value: unknown): unknown {
  if (typeof value === 'string') return printable(value)
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  if (Array.isArray(value)) return value.map(copy)
  // `fromEntries` defines properties: one called __proto__ stays a plain property.
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [printable(name), copy(each)]))
}

/** One line of JSON that is safe on a terminal. */
export function printableJson(value: unknown): string {
  return printable(JSON.stringify(value))
}

/** A name in quotes, for use inside a sentence. */
export function quoted(name: string): string {
  return `"${printable(name)}"`
}
