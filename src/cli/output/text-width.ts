const characters = new Intl.Segmenter()

/** Code points that take two columns: East Asian Wide and Fullwidth. */
const wide =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]/u
const emoji = /^(?:\p{Emoji_Presentation}|\p{RI}|\p{Extended_Pictographic}\ufe0f)/u
const markOnly = /^\p{M}+$/u

/** How many columns of a terminal the text takes. It must have no control characters. */
export function textWidth(text: string): number {
  // Nearly every text: segmenting takes a hundred times as long.
  if (/^[ -~]*$/.test(text)) return text.length
  let columns = 0
  for (const { segment } of characters.segment(text)) columns += characterWidth(segment)
  return columns
}

/** The text if it fits, else as much of it as fits before an ellipsis. A character of two columns is never halved. */
export function cutToWidth(text: string, columns: number): string {
  if (textWidth(text) <= columns) return text
  if (columns <= 0) return ''
  let cut = ''
  let used = 0
  for (const { segment } of characters.segment(text)) {
    used += characterWidth(segment)
    if (used > columns - 1) break
    cut += segment
  }
  return `${cut}…`
}

function characterWidth(character: string): number {
  if (markOnly.test(character)) return 0
  return wide.test(character) || emoji.test(character) ? 2 : 1
}
