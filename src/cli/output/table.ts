import { printable } from './terminal-text.ts'

const gap = '  '

/** Columns as wide as they need to be, under their headings. Nothing in a cell steers the terminal. */
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

/** In characters as people see them. */
function width(text: string): number {
  return [...characters.segment(text)].length
}
