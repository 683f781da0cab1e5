import { printable } from './terminal-text.ts'

const gap = '  '

/** A table with aligned columns under their headings. Control characters in cells are escaped. */
export function formatTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(printable))]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => width(line[column] ?? ''))))
  const format = (line: readonly string[]): string =>
    widths
      .map((wide, column) => (line[column] ?? '') + ' '.repeat(wide - width(line[column] ?? '')))
      .join(gap)
      .trimEnd()
  return `${lines.map(format).join('\n')}\n`
}

const characters = new Intl.Segmenter()

/** The width in characters as the user sees them (grapheme clusters). */
function width(text: string): number {
  return [...characters.segment(text)].length
}
