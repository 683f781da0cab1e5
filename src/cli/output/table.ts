import { printable } from '../../core/printable.ts'

const gap = '  '

/**
 * A table with aligned columns under their headings, printed a part at a time. A column that a later part makes wider is wider from there
 * on. Control characters in cells are escaped.
 */
export class Table {
  readonly #headings: readonly string[]
  readonly #widths: number[]
  #isBegun = false

  constructor(headings: readonly string[]) {
    this.#headings = headings
    this.#widths = headings.map(width)
  }

  /** The lines of more rows, under the headings if these are the first. */
  format(rows: readonly (readonly string[])[]): string {
    const lines = rows.map((row) => row.map(printable))
    for (const line of lines) {
      for (const [column, cell] of line.entries()) {
        this.#widths[column] = Math.max(this.#widths[column] ?? 0, width(cell))
      }
    }
    if (!this.#isBegun) lines.unshift([...this.#headings])
    this.#isBegun = true
    return `${lines.map((line) => this.#formatLine(line)).join('\n')}\n`
  }

  #formatLine(line: readonly string[]): string {
    return this.#widths
      .map((wide, column) => (line[column] ?? '') + ' '.repeat(wide - width(line[column] ?? '')))
      .join(gap)
      .trimEnd()
  }
}

const characters = new Intl.Segmenter()

/** The width in characters as the user sees them (grapheme clusters). */
function width(text: string): number {
  // Nearly every cell: segmenting takes a hundred times as long.
  if (/^[ -~]*$/.test(text)) return text.length
  return [...characters.segment(text)].length
}
