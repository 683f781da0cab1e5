import { exitCodesHelp } from '../exit-codes.ts'
import type { CommandDescription, DescribedOption, HelpBlock } from './help-text.ts'

/** The manual page of one command, in the man macros of roff. */
export function manPage(command: CommandDescription, version: string): string {
  const name = `leasehold-${command.name}`
  return lines(
    title(name, version),
    section('NAME', `${name} \\- ${escaped(command.summary)}`),
    section('SYNOPSIS', ...command.usage.map((usage) => `.B ${escaped(usage)}\n.br`)),
    section('DESCRIPTION', ...command.blocks.filter(({ kind }) => kind === 'paragraph').map(blockText)),
    section('OPTIONS', ...command.options.map(optionText)),
    ...command.blocks.filter(({ kind }) => kind === 'section').map(blockText),
    section('SEE ALSO', '.BR leasehold (1)'),
  )
}

/** The manual page of the program: its commands, and what they have in common. */
export function programManPage(commands: readonly CommandDescription[], version: string): string {
  const list = commands.map(({ name, summary }) => `.TP\n.BR leasehold\\-${escaped(name)} (1)\n${escaped(summary)}`)
  const see = commands.map(({ name }) => `.BR leasehold\\-${escaped(name)} (1)`)
  return lines(
    title('leasehold', version),
    section('NAME', 'leasehold \\- locks held on a lease'),
    section('SYNOPSIS', '.B leasehold\n.I COMMAND\n[options]'),
    section('DESCRIPTION', 'Locks held on a lease: yours while you renew them, the next holder\\(aqs when you stop.'),
    section('COMMANDS', ...list),
    section('ENVIRONMENT', ...variables.map(([name, text]) => `.TP\n.B ${name}\n${escaped(text)}`)),
    section('EXIT STATUS', literal(exitCodesHelp.split('\n').slice(1))),
    section('SEE ALSO', see.join(',\n')),
  )
}

const variables: readonly (readonly [string, string])[] = [
  ['LEASEHOLD_STORE', 'the store, unless --store names another; default: a file in the state directory'],
  ['LEASEHOLD_NAMESPACE', 'the namespace, unless --namespace names another; default: default'],
  ['LEASEHOLD_TOKEN', 'what a Leasehold server knows you by'],
  ['LEASEHOLD_STATE_DIR', 'the state directory; default: $XDG_STATE_HOME/leasehold, else ~/.local/state/leasehold'],
  ['NO_COLOR', 'if it is not empty: no colours'],
  ['FORCE_COLOR', 'colours, also where standard output is no terminal; 0: none. It has precedence over NO_COLOR'],
]

function title(name: string, version: string): string {
  return `.TH ${escaped(name.toUpperCase())} 1 "" "leasehold ${escaped(version)}" "Leasehold"`
}

function section(name: string, ...parts: readonly string[]): string {
  const apart = name === 'DESCRIPTION' ? '\n.PP\n' : '\n'
  return `.SH ${name}\n${parts.join(apart)}`
}

function blockText(block: HelpBlock): string {
  if (block.kind === 'paragraph') return escaped(block.text)
  if (block.kind === 'options') return block.options.map(optionText).join('\n')
  return section(escaped(block.title.toUpperCase()), literal(block.lines))
}

function optionText({ name, short, value, text }: DescribedOption): string {
  const flags = `${short === undefined ? '' : `\\-${short}, `}\\-\\-${escaped(name)}`
  const term = value === undefined ? `.B ${flags}` : `.BI "${flags} " ${escaped(value)}`
  return `.TP\n${term}\n${escaped(text)}`
}

/** Lines that stay as they are: examples, tables. */
function literal(text: readonly string[]): string {
  return `.nf\n${text.map(escaped).join('\n')}\n.fi`
}

function lines(...parts: readonly string[]): string {
  return `${parts.join('\n')}\n`
}

/** Text that roff prints as it is: no escapes, no requests, and hyphens that can be copied. */
function escaped(text: string): string {
  const plain = text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll("'", '\\(aq').replaceAll('…', '...')
  return /^[.]/.test(plain) ? `\\&${plain}` : plain
}
