import { printable } from '../../core/printable.ts'
import type { Line, StyledText } from './style.ts'
import { cutToWidth, textWidth } from './text-width.ts'

const gap = '  '
/** No column is cut to less than this, or than its heading. */
const columnMin = 8

/** A cell, with a style or without. */
export type Cell = string | StyledText

/**
 * A table with aligned columns under their headings, formatted a part at a time. A column that a later part makes wider is wider from there
 * on. On a terminal, wide columns are cut so that a row stays on its line; where that is not enough, columns are left out.
 */
export class Table {
  readonly #headings: readonly string[]
  readonly #widths: number[]
  readonly #columns: number
  readonly #droppable: readonly string[]
  #isBegun = false

  /** `columns`: the width of the terminal. Undefined: nothing is cut. `droppable`: the headings to leave out, first to last. */
  constructor(headings: readonly string[], columns?: number, droppable: readonly string[] = []) {
    this.#droppable = droppable
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
    const leastOf = (width: number, column: number): number =>
      Math.min(width, Math.max(columnMin, textWidth(this.#headings[column] ?? '')))
    for (const heading of this.#droppable) {
      if (rowWidth(widths.map(leastOf)) <= this.#columns) break
      const column = this.#headings.indexOf(heading)
      if (column >= 0) widths[column] = 0
    }
    const least = widths.map(leastOf)
    let excess = rowWidth(widths) - this.#columns
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

/** The width of a row. A column of width 0 is left out. */
function rowWidth(widths: readonly number[]): number {
  const shown = widths.filter((width) => width > 0)
  return shown.reduce((sum, width) => sum + width, 0) + gap.length * Math.max(0, shown.length - 1)
}

function lineOf(row: readonly StyledText[], widths: readonly number[]): Line {
  const last = row.findLastIndex(({ text }, column) => text !== '' && (widths[column] ?? 0) > 0)
  return row.slice(0, last + 1).flatMap(({ text, style }, column) => {
    const width = widths[column] ?? 0
    if (width === 0) return []
    const cut = cutToWidth(text, width)
    const padding = column === last ? '' : ' '.repeat(width - textWidth(cut)) + gap
    return [{ text: cut, style }, padding]
  })
}

function spanOf(cell: Cell): StyledText {
  return typeof cell === 'string' ? { text: cell } : cell
}
