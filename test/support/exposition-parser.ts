/** A line of the text format that is no comment. */
export interface ParsedSample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface ParsedFamily {
  readonly help: string
  readonly type: string
  readonly samples: ParsedSample[]
}

/**
 * Reads the text format of Prometheus, version 0.0.4, and throws at anything else. Written from the
 * description of the format, character by character, without code of ours.
 */
export function parseExposition(text: string): Map<string, ParsedFamily> {
  const families = new Map<string, ParsedFamily>()
  if (text !== '' && !text.endsWith('\n')) throw new Error('The last line does not end.')
  let help: { name: string; text: string } | undefined
  let current: { name: string; family: ParsedFamily } | undefined
  const lines = text.split('\n').slice(0, -1)
  for (const line of lines) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) ([^ ]+) (.*)$/s.exec(line) ?? []
    if (keyword === 'HELP') help = { name, text: unescape(rest, '') }
    else if (keyword === 'TYPE') {
      if (families.has(name)) throw new Error(`${name} has two types.`)
      if (help?.name !== name) throw new Error(`${name} has no help.`)
      current = { name, family: { help: help.text, type: rest, samples: [] } }
      families.set(name, current.family)
    } else {
      const sample = parseSample(line)
      if (current === undefined || !belongs(sample.name, current)) throw new Error(`${sample.name} is of no family.`)
      current.family.samples.push(sample)
    }
  }
  return families
}

function belongs(sample: string, { name, family }: { name: string; family: ParsedFamily }): boolean {
  if (family.type !== 'histogram') return sample === name
  return ['_bucket', '_sum', '_count'].some((suffix) => sample === name + suffix)
}

function parseSample(line: string): ParsedSample {
  const name = /^[a-zA-Z_:][a-zA-Z0-9_:]*/.exec(line)?.[0]
  if (name === undefined) throw new Error(`No name: ${line}`)
  const labels: Record<string, string> = {}
  let at = name.length
  if (line[at] === '{') {
    do {
      at += 1
      const label = /^[a-zA-Z_][a-zA-Z0-9_]*/.exec(line.slice(at))?.[0]
      if (label === undefined || Object.hasOwn(labels, label)) throw new Error(`A bad or second label: ${line}`)
      at += label.length
      if (line.slice(at, at + 2) !== '="') throw new Error(`No value of ${label}: ${line}`)
      at += 2
      const from = at
      while (at < line.length && line[at] !== '"') at += line[at] === '\\' ? 2 : 1
      labels[label] = unescape(line.slice(from, at), '"')
      at += 1
    } while (line[at] === ',')
    if (line[at] !== '}') throw new Error(`The labels do not end: ${line}`)
    at += 1
  }
  if (line[at] !== ' ') throw new Error(`No value: ${line}`)
  return { name, labels, value: parseNumber(line.slice(at + 1)) }
}

function unescape(text: string, quote: string): string {
  let plain = ''
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] !== '\\') plain += text[at]
    else {
      at += 1
      const next = text[at] ?? ''
      if (next === 'n') plain += '\n'
      else if (next !== '' && `\\${quote}`.includes(next)) plain += next
      else throw new Error(`\\${next} means nothing.`)
    }
  }
  return plain
}

function parseNumber(text: string): number {
  if (/^[+-]Inf$/.test(text)) return text === '+Inf' ? Infinity : -Infinity
  if (text === 'NaN') return NaN
  if (!/^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/.test(text)) throw new Error(`${text} is no number.`)
  return Number(text)
}
