// A picture of a terminal: text with SGR escape sequences, as SVG. For the docs; see pictures.mjs.

const palettes = {
  light: {
    page: '#ffffff',
    frame: '#d0d7de',
    text: '#1f2328',
    dim: '#656d76',
    31: '#b3261e',
    32: '#1a7f37',
    33: '#875500',
    36: '#0f6674',
  },
  dark: {
    page: '#0d1117',
    frame: '#30363d',
    text: '#e6edf3',
    dim: '#8d96a0',
    31: '#ff7b72',
    32: '#3fb950',
    33: '#d29922',
    36: '#56d4dd',
  },
}

const cellWidth = 8.4
const lineHeight = 19
const margin = 16

/** The screen as SVG, for a `light` or `dark` page. */
export function terminalPicture(screen, theme, title) {
  const palette = palettes[theme]
  // A style goes on over the end of a line.
  let style = {}
  const lines = screen
    .trimEnd()
    .split('\n')
    .map((line) => {
      const spans = spansOf(line, style)
      style = spans.at(-1)?.after ?? style
      return spans.filter(({ text }) => text !== '')
    })
  const columns = Math.max(...lines.map((spans) => spans.reduce((sum, { text }) => sum + widthOf(text), 0)))
  const width = Math.ceil(columns * cellWidth + 2 * margin)
  const height = lines.length * lineHeight + 2 * margin
  const rows = lines.map((spans, row) => {
    const baseline = margin + row * lineHeight + 14
    let column = 0
    return spans
      .map(({ text, bold, dim, colour, inverse }) => {
        const x = rounded(margin + column * cellWidth)
        const wide = rounded(widthOf(text) * cellWidth)
        column += widthOf(text)
        if (text.trim() === '' && !inverse) return ''
        const own = colour === undefined ? (dim ? palette.dim : palette.text) : palette[colour]
        const fill = inverse ? palette.page : own
        const weight = bold ? ' font-weight="bold"' : ''
        const box = inverse
          ? `<rect x="${x}" y="${baseline - 14}" width="${wide}" height="${lineHeight}" fill="${own}"/>`
          : ''
        // The length keeps columns aligned, whatever font the reader has.
        return `${box}<text x="${x}" y="${baseline}" textLength="${wide}" fill="${fill}"${weight}>${escaped(text)}</text>`
      })
      .join('')
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escaped(title)}</title>
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="6" fill="${palette.page}" stroke="${palette.frame}"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" xml:space="preserve">
${rows.filter((row) => row !== '').join('\n')}
</g>
</svg>
`
}

/** The pieces of one line, each of one style, and after them the style of the next line. */
function spansOf(line, before) {
  const spans = []
  let style = before
  // eslint-disable-next-line no-control-regex -- SGR sequences
  for (const [, codes, text] of line.matchAll(/\u001b\[([\d;]*)m|([^\u001b]+)/g)) {
    if (text !== undefined) spans.push({ ...style, text })
    else for (const code of (codes || '0').split(';')) style = styleAfter(style, Number(code))
  }
  return [...spans, { text: '', after: style }]
}

function styleAfter(style, code) {
  if (code === 0) return {}
  if (code === 1) return { ...style, bold: true }
  if (code === 2) return { ...style, dim: true }
  if (code === 22) return { ...style, bold: false, dim: false }
  if (code === 7 || code === 27) return { ...style, inverse: code === 7 }
  if (code >= 30 && code <= 37) return { ...style, colour: code }
  return code === 39 ? { ...style, colour: undefined } : style
}

function widthOf(text) {
  return [...text].length
}

function rounded(number) {
  return Math.round(number * 10) / 10
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll(' ', '\u00a0')
}
