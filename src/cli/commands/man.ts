import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { messageOf } from '../../core/errors.ts'
import { version } from '../../index.ts'
import { colourOption } from '../arguments.ts'
import type { Command } from '../command.ts'
import { OutputError, UsageError } from '../exit-codes.ts'
import { quoted } from '../output/terminal-text.ts'
import { describeCommand } from '../reference/help-text.ts'
import { manPage, programManPage } from '../reference/man-page.ts'
import { colourHelp } from '../stores/store.ts'

const help = `Usage: leasehold man [COMMAND] [options]

Prints the manual page of leasehold, or of one of its commands, in the format of man.

Options:
  --to DIRECTORY      write every page to a file in DIRECTORY instead
${colourHelp}

Examples:
  leasehold man run | man -l -
  leasehold man --to ~/.local/share/man/man1
`

/** `leasehold man` */
export function manCommand(commands: () => readonly Command[]): Command {
  return {
    name: 'man',
    summary: 'print a manual page',
    help,
    options: { ...colourOption, to: { type: 'string' } },
    run(given, { print, messages }) {
      const [topic, ...more] = given.positionals
      if (more.length > 0) throw new UsageError('man takes one COMMAND.')
      const described = commands().map(describeCommand)
      const folder = given.texts.get('to')
      if (folder !== undefined) {
        if (topic !== undefined) throw new UsageError('man takes a COMMAND or --to, not both.')
        const pages = described.map((command) => [`leasehold-${command.name}.1`, manPage(command, version)] as const)
        write(folder, [['leasehold.1', programManPage(described, version)], ...pages])
        messages.say(`wrote ${pages.length + 1} pages to ${folder}`)
        return Promise.resolve(0)
      }
      const command = described.find(({ name }) => name === topic)
      if (topic !== undefined && command === undefined) throw new UsageError(`There is no command ${quoted(topic)}.`)
      print(command === undefined ? programManPage(described, version) : manPage(command, version))
      return Promise.resolve(0)
    },
  }
}

function write(folder: string, pages: readonly (readonly [string, string])[]): void {
  try {
    mkdirSync(folder, { recursive: true })
    for (const [name, text] of pages) writeFileSync(path.join(folder, name), text)
  } catch (error) {
    throw new OutputError(`The pages could not be written: ${messageOf(error)}`)
  }
}
