import { colourHelp } from '../stores/store.ts'
import { colourOption } from '../arguments.ts'
import type { Command } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { completionScript, shells } from '../reference/completions.ts'
import { describeCommand } from '../reference/help-text.ts'
import { quoted } from '../output/terminal-text.ts'

const help = `Usage: leasehold completion SHELL [options]

Prints a script that completes commands, options and the names of locks in SHELL: bash, zsh or fish. Names come from the
store of --store and --namespace on the line, or of LEASEHOLD_STORE and LEASEHOLD_NAMESPACE.

Options:
${colourHelp}

Examples:
  leasehold completion bash > ~/.local/share/bash-completion/completions/leasehold
  leasehold completion zsh > ~/.zfunc/_leasehold
  leasehold completion fish > ~/.config/fish/completions/leasehold.fish
`

/** `leasehold completion` */
export function completionCommand(commands: () => readonly Command[]): Command {
  return {
    name: 'completion',
    summary: 'print completions for a shell',
    help,
    options: colourOption,
    run(given, { print }) {
      const [word, ...more] = given.positionals
      const shell = shells.find((each) => each === word)
      if (shell === undefined || more.length > 0) {
        const which = word === undefined ? '' : `${quoted(word)} is not one. `
        throw new UsageError(`${which}completion takes the name of one shell: ${shells.join(', ')}.`)
      }
      const names = commands().map(({ name }) => name)
      print(completionScript(shell, commands().map(describeCommand), { completion: shells, man: names }))
      return Promise.resolve(0)
    },
  }
}
