import { printable } from '../../core/printable.ts'

/** A text of several lines, each made {@link printable}. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** One line of JSON that is safe on a terminal. */
export function printableJson(value: unknown): string {
  return printable(JSON.stringify(value))
}

/** A name in quotes, for use inside a sentence. */
export function quoted(name: string): string {
  return `"${printable(name)}"`
}
