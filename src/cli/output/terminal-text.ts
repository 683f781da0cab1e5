/**
 * Names, hosts and metadata come from the store, that is from anybody who may write to it. Nothing of them may steer the
 * terminal they are shown on: no escape sequences, no line breaks, no text that runs backwards.
 */
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** The text with every character that could steer a terminal written as `\u001b`. JSON stays the same JSON. */
export function printable(text: string): string {
  return text.replace(steering, (character) => {
    let escaped = ''
    for (let index = 0; index < character.length; index += 1) {
      escaped += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`
    }
    return escaped
  })
}

/** Lines of which each is {@link printable}, for what is printed whole. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** A copy of a plain value in which every text is {@link printable}. */
export function printableCopy<Value>(value: Value): Value {
  return copy(value) as Value
}

function copy(value: unknown): unknown {
  if (typeof value === 'string') return printable(value)
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  if (Array.isArray(value)) return value.map(copy)
  // Defines each property anew: one called __proto__ stays a property.
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [printable(name), copy(each)]))
}

/** One line of JSON that is safe on a terminal. */
export function printableJson(value: unknown): string {
  return printable(JSON.stringify(value))
}

/** A name in quotes, as it is shown inside sentences. */
export function quoted(name: string): string {
  return `"${printable(name)}"`
}
