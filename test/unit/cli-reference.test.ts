import { describe, expect, test } from 'vitest'
import { commands } from '../../src/cli/command-line.ts'
import { describeCommand } from '../../src/cli/reference/help-text.ts'
import { manPage } from '../../src/cli/reference/man-page.ts'

describe.each(commands.map((command) => [command.name, command] as const))('the help of %s', (_, command) => {
  test('describes every option that is parsed, and no other', () => {
    const described = describeCommand(command).options
    expect(described.map(({ name }) => name).toSorted()).toEqual(Object.keys(command.options).toSorted())
    for (const { name, short, value, text } of described) {
      const { type, short: parsedShort } = command.options[name] ?? {}
      expect([name, short, value !== undefined]).toEqual([name, parsedShort, type === 'string'])
      expect(text).not.toBe('')
    }
  })

  test('names every word that an option takes', () => {
    for (const { name, choices } of describeCommand(command).options) {
      const missing = choices.filter((word) => !command.help.includes(word) && name !== 'kind')
      expect(missing).toEqual([])
    }
  })

  test('is a manual page with the same options and examples', () => {
    const page = manPage(describeCommand(command), '1.2.3')
    for (const name of Object.keys(command.options)) {
      expect(page).toContain(`\\-\\-${name.replaceAll('-', '\\-')}`)
    }
    expect(page).toContain('.SH EXAMPLES')
    // A line that begins with a quote or a dot would be a request.
    expect(page.split('\n').filter((line) => /^['.](?!TH|SH|TP|PP|B |BI |BR |br|nf|fi)/.test(line))).toEqual([])
  })
})
