import { describe, expect, test } from 'vitest'
import { messagesTo } from '../../src/cli/output/messages.ts'
import { renderLine } from '../../src/cli/output/style.ts'
import { Table } from '../../src/cli/output/table.ts'
import { printableJson } from '../../src/cli/output/terminal-text.ts'
import { printable } from '../../src/core/printable.ts'

const nasty = {
  colour: '\u001b[31mred',
  title: '\u001b]0;owned\u0007',
  c1: '\u009b2J',
  lines: 'a\r\nleasehold: granted',
  backwards: 'abc\u202egpj.exe',
  invisible: 'ad\u200bmin\u2066',
  separators: 'a\u2028b\u2029c',
  half: 'a\ud800b',
  tags: 'x\u{e0041}y',
  del: 'a\u007fb',
  nul: 'a\u0000b',
}

describe('text from the store', () => {
  test.each(Object.entries(nasty))('cannot steer the terminal: %s', (_, text) => {
    expect(printable(text)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u)
  })

  test('is shown with what was taken out', () => {
    expect(printable('\u001b[31mred')).toBe('\\u001b[31mred')
    expect(printable('x\u{e0041}')).toBe('x\\udb40\\udc41')
  })

  test('is left alone if it is harmless', () => {
    const harmless = 'orders/42 größe 日本 🔒 "a\\b"'
    expect(printable(harmless)).toBe(harmless)
  })

  test('stays the same JSON', () => {
    expect(JSON.parse(printableJson(nasty))).toEqual(nasty)
  })
})

function shownTable(rows: readonly (readonly string[])[], columns?: number): string[] {
  return new Table(['NAME', 'PID'], columns).lines(rows).map((line) => renderLine(line, { colour: false, columns }))
}

test('a table has columns as wide as their widest entry', () => {
  expect(shownTable([['orders/42', '7'], ['🔒', '4711']])).toEqual(['NAME       PID', 'orders/42  7', '🔒         4711']) // prettier-ignore
})

describe('messages', () => {
  test('a status line is replaced by what comes next', () => {
    let screen = ''
    const messages = messagesTo((text) => (screen += text), { columns: 20 })
    messages.status('waiting for something long')
    messages.say('granted')
    expect(screen).toBe('\r\u001b[2Kleasehold: waiting…\r\u001b[2Kleasehold: granted\n')
  })

  test('nothing is rewritten where lines cannot be', () => {
    let screen = ''
    const messages = messagesTo((text) => (screen += text), undefined)
    messages.status('waiting')
    messages.say('granted')
    expect(screen).toBe('leasehold: granted\n')
  })
})
