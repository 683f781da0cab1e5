import type { Command } from '../command.ts'

/** An option as the help of its command describes it. */
export interface DescribedOption {
  /** `kind` for `--kind`. */
  readonly name: string
  /** `q` for `-q`. */
  readonly short: string | undefined
  /** What its value is, such as DURATION; undefined if it takes none. */
  readonly value: string | undefined
  readonly text: string
  /** The words that it takes, if they are few. */
  readonly choices: readonly string[]
}

/** A part of a help text after its usage. */
export type HelpBlock =
  | { readonly kind: 'paragraph'; readonly text: string }
  | { readonly kind: 'options'; readonly options: readonly DescribedOption[] }
  | { readonly kind: 'section'; readonly title: string; readonly lines: readonly string[] }

/** The description of a command: its help text, read. */
export interface CommandDescription {
  readonly name: string
  readonly summary: string
  readonly usage: readonly string[]
  readonly blocks: readonly HelpBlock[]
  readonly options: readonly DescribedOption[]
  readonly takesCommand: boolean
}

const helpOption: DescribedOption = { name: 'help', short: 'h', value: undefined, text: 'show this help', choices: [] }

/** Reads the help of a command: usage, then paragraphs, options and other sections with blank lines between. */
export function describeCommand(command: Command): CommandDescription {
  const { name, summary, help, takesCommand = false } = command
  const [usage = '', ...rest] = help.trimEnd().split('\n\n')
  const blocks = rest.map((block) => readBlock(block, command))
  const options = blocks.flatMap((block) => (block.kind === 'options' ? block.options : []))
  return {
    name,
    summary,
    usage: usage
      .replace('Usage:', '')
      .split('\n')
      .map((line) => line.trim()),
    blocks,
    options: [...options, helpOption],
    takesCommand,
  }
}

function readBlock(block: string, command: Command): HelpBlock {
  const [title = '', ...lines] = block.split('\n')
  if (title === 'Options:') return { kind: 'options', options: readOptions(lines, command) }
  if (title.endsWith(':') && lines.every((line) => line.startsWith('  '))) {
    return { kind: 'section', title: title.slice(0, -1), lines: lines.map((line) => line.slice(2)) }
  }
  // One line: `Exit codes: 0 done, 64 wrong use`.
  const [, short, text] = /^(Exit codes): (.*)$/s.exec(block) ?? []
  if (short !== undefined && text !== undefined)
    return { kind: 'section', title: short, lines: [joined(text.split('\n'))] }
  return { kind: 'paragraph', text: joined([title, ...lines]) }
}

const optionLine = /^ {2}(?:-(?<short>\w), )?--(?<name>[a-z-]+)(?: (?<value>[A-Z][A-Z/[\]]*))?(?: +(?<text>.*))?$/

function readOptions(lines: readonly string[], { options }: Command): DescribedOption[] {
  const read: { option: Omit<DescribedOption, 'text'>; texts: string[] }[] = []
  for (const line of lines) {
    const { name, short, value, text } = optionLine.exec(line)?.groups ?? {}
    if (name === undefined) read.at(-1)?.texts.push(line)
    else read.push({ option: { name, short, value, choices: options[name]?.choices ?? [] }, texts: [text ?? ''] })
  }
  return read.map(({ option, texts }) => ({ ...option, text: joined(texts) }))
}

function joined(lines: readonly string[]): string {
  return lines
    .map((line) => line.trim())
    .join(' ')
    .trim()
}
