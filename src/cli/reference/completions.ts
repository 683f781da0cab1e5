import { shellWords } from '../arguments.ts'
import type { CommandDescription, DescribedOption } from './help-text.ts'

/** Shells with completions. */
export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/** Commands whose first argument is the NAME of a lock that there may be. */
const named = new Set(['run', 'acquire', 'explain', 'watch', 'evict', 'ls'])

/** The arguments of commands that take a word of a few. */
export type Arguments = Readonly<Record<string, readonly string[]>>

/** A script that teaches the shell the commands, their options, and the names of locks. */
export function completionScript(shell: Shell, commands: readonly CommandDescription[], words: Arguments): string {
  const head = `# Completions of leasehold for ${shell}, written by: leasehold completion ${shell}\n`
  if (shell === 'bash') return head + bashScript(commands, words)
  if (shell === 'zsh') return `#compdef leasehold\n${head}${zshScript(commands, words)}`
  return head + fishScript(commands, words)
}

function isFile({ value }: DescribedOption): boolean {
  return value === 'FILE' || value === 'DIRECTORY'
}

/** Names come from a store, from strangers: they are read line by line, never expanded, and inserted quoted. */
function bashScript(commands: readonly CommandDescription[], words: Arguments): string {
  const cases = commands.flatMap(({ name, options }) => {
    const valued = options.filter(({ value }) => value !== undefined)
    const of = (some: readonly DescribedOption[]): string =>
      some
        .flatMap((option) => [`--${option.name}`, ...(option.short === undefined ? [] : [`-${option.short}`])])
        .map((flag) => `${name}:${flag}`)
        .join('|')
    const chosen = valued.filter(({ choices }) => choices.length > 0)
    const files = valued.filter(isFile)
    const others = valued.filter((option) => option.choices.length === 0 && !isFile(option))
    return [
      ...chosen.map((option) => `    ${of([option])}) words=(${shellWords(option.choices)}) ;;`),
      ...(files.length === 0 ? [] : [`    ${of(files)}) _leasehold_files; return ;;`]),
      ...(others.length === 0 ? [] : [`    ${of(others)}) return ;;`]),
    ]
  })
  const flags = commands.map(({ name, options }) => `          ${name}) words=(${flagsOf(options).join(' ')}) ;;`)
  const fixed = Object.entries(words).map(([name, each]) => `          ${name}) words=(${shellWords(each)}) ;;`)
  return `_leasehold_files() {
  local file
  while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
  compopt -o filenames 2>/dev/null
}

_leasehold_names() {
  local name at
  local -a typed=() where=()
  # As typed: bash splits the words of a completion at each colon, and so every URL.
  IFS=$' \\t' read -r -a typed <<< "\${COMP_LINE:0:COMP_POINT}"
  for ((at = 2; at < \${#typed[@]}; at++)); do
    name=\${typed[at + 1]#[\\'\\"]}
    case \${typed[at]} in
    --store | --namespace) [[ -n $name ]] && where+=("\${typed[at]}" "\${name%[\\'\\"]}") ;;
    --store=* | --namespace=*) where+=("\${typed[at]}") ;;
    esac
  done
  while IFS= read -r name; do
    [[ $name == "$cur"* ]] && COMPREPLY+=("$(printf %q "$name")")
  done < <(leasehold ls -o name --color never "\${where[@]}" 2>/dev/null)
  declare -F __ltrim_colon_completions > /dev/null && __ltrim_colon_completions "$cur"
}

_leasehold() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]} word
  local -a words=()
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    words=(${commands.map(({ name }) => name).join(' ')} --help --version)
  else
    for word in "\${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
      if [[ $word == -- ]]; then
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -c -- "$cur")
        return
      fi
    done
    case "\${COMP_WORDS[1]}:$prev" in
${cases.join('\n')}
    *)
      if [[ $cur == -* ]]; then
        case "\${COMP_WORDS[1]}" in
${flags.join('\n')}
        esac
      else
        case "\${COMP_WORDS[1]}" in
          ${[...named].join('|')}) _leasehold_names; return ;;
          help) words=(${commands.map(({ name }) => name).join(' ')}) ;;
${fixed.join('\n')}
        esac
      fi
      ;;
    esac
  fi
  for word in "\${words[@]}"; do
    [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
  done
}
complete -F _leasehold leasehold
`
}

function flagsOf(options: readonly DescribedOption[]): string[] {
  return options.map(({ name }) => `--${name}`)
}

function zshScript(commands: readonly CommandDescription[], words: Arguments): string {
  const described = commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`)
  const cases = commands.map(({ name, options, takesCommand }) => {
    const specs = options.map((option) => `      ${zshOption(option)} \\`)
    const fixed = words[name]
    const first = named.has(name)
      ? quoted('1:NAME:_leasehold_names')
      : quoted(fixed === undefined ? '*:' : `1:WORD:(${fixed.join(' ')})`)
    const rest = takesCommand ? ` ${quoted('*::COMMAND:_normal')}` : ''
    return `    ${name})\n    _arguments \\\n${specs.join('\n')}\n      ${first}${rest}\n    ;;`
  })
  return `_leasehold_names() {
  local -a names where
  integer at
  for (( at = 2; at < CURRENT; at++ )); do
    case $words[at] in
    --store | --namespace) where+=("$words[at]" "\${(Q)words[at+1]}") ;;
    --store=* | --namespace=*) where+=("\${(Q)words[at]}") ;;
    esac
  done
  names=("\${(@f)$(leasehold ls -o name --color never "\${where[@]}" 2>/dev/null)}")
  compadd -a names
}

_leasehold() {
  local -a commands
  commands=(
${described.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT -= 1 ))
  case $words[1] in
${cases.join('\n')}
  esac
}

if [[ $funcstack[1] == _leasehold ]]; then _leasehold "$@"; else compdef _leasehold leasehold; fi
`
}

function zshOption(option: DescribedOption): string {
  const { name, short, value, text, choices } = option
  const plain = text.replaceAll(/[\\[\]:]/g, (character) => `\\${character}`)
  const action = choices.length > 0 ? `(${choices.join(' ')})` : isFile(option) ? '_files' : ''
  const rest = `[${plain}]${value === undefined ? '' : `:${value.replaceAll(/[[\]:]/g, '')}:${action}`}`
  const long = quoted(`--${name}${rest}`)
  return short === undefined ? long : `${long} ${quoted(`-${short}${rest}`)}`
}

const fishNames = `function __leasehold_names
    set -l words (commandline -opc)
    set -l where
    for at in (seq (count $words))
        switch $words[$at]
            case --store --namespace
                set -a where $words[$at] $words[(math $at + 1)]
            case '--store=*' '--namespace=*'
                set -a where $words[$at]
        end
    end
    leasehold ls -o name --color never $where 2>/dev/null
end`

function fishScript(commands: readonly CommandDescription[], words: Arguments): string {
  const lines = [fishNames, 'complete -c leasehold -f']
  for (const { name, summary, options, takesCommand } of commands) {
    const within = `-n ${fishQuoted(`__fish_seen_subcommand_from ${name}`)}`
    lines.push(`complete -c leasehold -n __fish_use_subcommand -a ${name} -d ${fishQuoted(summary)}`)
    for (const option of options) {
      const short = option.short === undefined ? '' : ` -s ${option.short}`
      const argument =
        option.value === undefined
          ? ''
          : option.choices.length > 0
            ? ` -x -a ${fishQuoted(option.choices.join(' '))}`
            : isFile(option)
              ? ' -r -F'
              : ' -x'
      lines.push(`complete -c leasehold ${within} -l ${option.name}${short}${argument} -d ${fishQuoted(option.text)}`)
    }
    const fixed = words[name]
    if (fixed !== undefined) lines.push(`complete -c leasehold ${within} -a ${fishQuoted(fixed.join(' '))}`)
    if (named.has(name)) lines.push(`complete -c leasehold ${within} -a '(__leasehold_names)' -d lock`)
    if (takesCommand) lines.push(`complete -c leasehold ${within} -a '(__fish_complete_subcommand --fcs-skip=2)'`)
  }
  return `${lines.join('\n')}\n`
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", String.raw`\'`)}'`
}
