import { printable } from '../../core/printable.ts'
import type { Line, Span } from './style.ts'
import { cutToWidth, textWidth } from './text-width.ts'

const gap = '  '
/** No column is cut to less than this, or than its heading. */
const columnMin = 8

/** A cell, with a style or without. */
export type Cell = string | Span

/**
 * A table with aligned columns under their headings, formatted a part at a time. A column that a later part makes wider is wider from there
 * on. On a terminal, wide columns are cut so that a row stays on its line.
 */
export class Table {
  readonly #headings: readonly string[]
  readonly #widths: number[]
  readonly #columns: number
  #isBegun = false

  /** `columns`: the width of the terminal. Undefined: nothing is cut. */
  constructor(headings: readonly string[], columns?: number) {
    this.#headings = headings
    this.#widths = headings.map(textWidth)
    this.#columns = columns ?? Infinity
  }

  /** The lines of more rows, under the headings if these are the first. */
  lines(rows: readonly (readonly Cell[])[]): Line[] {
    const safe = rows.map((row) => row.map((cell) => ({ ...spanOf(cell), text: printable(spanOf(cell).text) })))
    for (const row of safe) {
      for (const [column, { text }] of row.entries()) {
        this.#widths[column] = Math.max(this.#widths[column] ?? 0, textWidth(text))
      }
    }
    const widths = this.#fittingWidths()
    const lines = safe.map((row) => lineOf(row, widths))
    if (!this.#isBegun)
      lines.unshift(
        lineOf(
          this.#headings.map((text) => ({ text, style: 'bold' })),
          widths,
        ),
      )
    this.#isBegun = true
    return lines
  }

  /** The widths, with the widest columns cut until a row fits. If no more can be cut, the end of the row is. */
  #fittingWidths(): number[] {
    const widths = [...this.#widths]
    const least = this.#headings.map((heading, column) =>
      Math.min(widths[column] ?? 0, Math.max(columnMin, textWidth(heading))),
    )
    let excess = widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1) - this.#columns
    while (excess > 0) {
      const spare = widths.map((width, column) => (width > (least[column] ?? 0) ? width : 0))
      const widest = spare.indexOf(Math.max(...spare))
      if ((spare[widest] ?? 0) === 0) break
      widths[widest] = (widths[widest] ?? 0) - 1
      excess -= 1
    }
    return widths
  }
}

function lineOf(row: readonly Span[], widths: readonly number[]): Line {
  const last = row.findLastIndex(({ text }) => text !== '')
  return row.slice(0, last + 1).flatMap(({ text, style }, column) => {
    const cut = cutToWidth(text, widths[column] ?? 0)
    const padding = column === last ? '' : ' '.repeat((widths[column] ?? 0) - textWidth(cut)) + gap
    return [{ text: cut, style }, padding]
  })
}

function spanOf(cell: Cell): Span {
  return typeof cell === 'string' ? { text: cell } : cell
}
