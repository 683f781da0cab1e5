import { printable } from '../../core/printable.ts'
import { cutToWidth, textWidth } from './text-width.ts'

/** How a piece of text looks where colours are allowed. */
export type Style = keyof typeof codes

/** A piece of text with a style. */
export interface StyledText {
  readonly text: string
  readonly style?: Style | undefined
}

/** One line of output. Its texts may be others' words: only {@link renderLine} adds escape sequences. */
export type Line = readonly (string | StyledText)[]

/** What the reader of the output can see. */
export interface Look {
  readonly colour: boolean
  /** Whether characters such as ● are shown; otherwise ASCII. */
  readonly symbols: boolean
  /** Lines are cut to this width; undefined: they are as long as they are. */
  readonly columns: number | undefined
}

/** Select Graphic Rendition: on and off. */
const codes = {
  bold: [1, 22],
  dim: [2, 22],
  inverse: [7, 27],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const

/** The line for the output: control characters escaped, cut to the width, coloured if allowed. */
export function renderLine(line: Line, { colour, columns }: Pick<Look, 'colour' | 'columns'>): string {
  let left = columns ?? Infinity
  let rendered = ''
  const spans = line.map((span): StyledText => (typeof span === 'string' ? { text: span } : span))
  for (const [index, { text, style }] of spans.entries()) {
    const safe = printable(text)
    const isWhole = textWidth(safe) <= left
    const hasMore = isWhole && textWidth(safe) === left && spans.slice(index + 1).some((span) => span.text !== '')
    const shown = isWhole && !hasMore ? safe : cutToWidth(hasMore ? `${safe} ` : safe, left)
    left -= textWidth(shown)
    rendered += colour && style !== undefined && shown !== '' ? styled(shown, style) : shown
    if (!isWhole || hasMore) break
  }
  return rendered
}

function styled(text: string, style: Style): string {
  const [on, off] = codes[style]
  return `\u001b[${on}m${text}\u001b[${off}m`
}

/** Whether colours are wanted: `--color`, else FORCE_COLOR, else NO_COLOR, else a terminal that has colours. */
export function wantsColour(
  wanted: 'auto' | 'always' | 'never',
  variables: Readonly<Record<string, string | undefined>>,
  isTerminal: boolean,
): boolean {
  if (wanted !== 'auto') return wanted === 'always'
  const forced = variables['FORCE_COLOR']
  if (forced !== undefined) return forced !== '0' && forced !== 'false'
  if (variables['NO_COLOR']) return false
  return isTerminal && variables['TERM'] !== 'dumb'
}

/** Whether the terminal shows characters beyond ASCII, as far as its variables say. */
export function wantsSymbols(variables: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  if (!isTerminal || variables['TERM'] === 'dumb' || variables['TERM'] === 'linux') return false
  if (process.platform === 'win32') return variables['WT_SESSION'] !== undefined
  const locale = variables['LC_ALL'] || variables['LC_CTYPE'] || variables['LANG'] || ''
  return /utf-?8/i.test(locale)
}

/** The line in as many lines as its words need, each as far to the right as the first. */
export function wrapLine(line: Line, columns: number): Line[] {
  const spans = line.map((span) => (typeof span === 'string' ? { text: span } : span))
  const indent = ' '.repeat(Math.min(/^ */.exec(spans.map(({ text }) => text).join(''))?.[0].length ?? 0, columns >> 1))
  const lines: StyledText[][] = [[]]
  let used = 0
  for (const { text, style } of spans) {
    for (const word of printable(text).match(/ *[^ ]+| +$/g) ?? []) {
      const width = textWidth(word)
      if (used + width > columns && used > indent.length) {
        const trimmed = word.trimStart()
        lines.push([{ text: indent }, { text: trimmed, style }])
        used = indent.length + textWidth(trimmed)
      } else {
        lines.at(-1)?.push({ text: word, style })
        used += width
      }
    }
  }
  return lines
}
