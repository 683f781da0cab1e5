import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { connect, named } from '../../src/index.ts'
import { Table } from '../../src/cli/output/table.ts'
import { textWidth } from '../../src/cli/output/text-width.ts'
import { droppableHeadings, headingsOf } from '../../src/cli/inspect/lock-rows.ts'
import { renderLine } from '../../src/cli/output/style.ts'
import { cliBench } from './support/cli-bench.ts'

const escape = String.fromCharCode(27)
/** Escape sequences, line ends and right-to-left marks: in metadata, as no name has them. */
const sequences = `${escape}]0;owned\u0007${escape}[2J two\nlines\r\n- injected: true \u202egnp.exe\u2066`
/** Names as a stranger chooses them. */
const hostile = ['$(touch pwned)', '- "a": {b: [*c, &d !!e]} # |', 'yes', '2026-11-18', `long-${'n'.repeat(500)}`]

describe('ls, with hostile names and services', () => {
  async function listed(...args: string[]) {
    const { leasehold, shown, store } = cliBench()
    await using locks = await connect(store, { metadata: { service: sequences, user: `${sequences}${hostile[0]}` } })
    for (const name of hostile) await locks.acquire(named(name), { owner: hostile[0] ?? '' })
    expect(await leasehold('ls', ...args)).toBe(0)
    return shown.output
  }
  // eslint-disable-next-line no-control-regex -- what must not be there
  const unsafe = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/

  test.each([
    ['--sort', 'name'],
    ['-o', 'wide'],
    ['-o', 'json'],
    ['-o', 'yaml'],
    ['-o', 'name'],
  ])('%s %s writes no control characters', async (...args) => {
    expect(await listed(...args)).not.toMatch(unsafe)
  })

  test('-o yaml is read by a YAML parser as -o json is read by JSON', async () => {
    const { leasehold, shown, store } = cliBench()
    await using locks = await connect(store, {
      metadata: { service: 'a: b', text: sequences, nested: { list: [], none: null, no: [{ y: 1 }, ['']] } },
    })
    for (const name of hostile) await locks.acquire(named(name))
    await leasehold('ls', '-o', 'yaml')
    const documents = parseAllDocuments(shown.output)
    expect('empty' in documents ? [] : documents.flatMap(({ errors }) => errors)).toEqual([])
    const fromYaml = [...documents].map(
      (document) => document.toJS() as { name: string; holders: { remainingMs: number }[] },
    )
    shown.output = ''
    await leasehold('ls', '-o', 'json')
    const fromJson = shown.output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as (typeof fromYaml)[number])
    // Times are read anew with each listing, and may be a millisecond apart.
    const timeless = (each: typeof fromYaml): unknown =>
      JSON.parse(
        JSON.stringify(each, (field, value: unknown) => (/(?:At|Ms|Heartbeat)$/.test(field) ? typeof value : value)),
      )
    expect(timeless(fromYaml)).toEqual(timeless(fromJson))
    expect(fromYaml.map(({ name }) => name).toSorted()).toEqual(hostile.toSorted())
  })

  test('-o name has a line for each lock', async () => {
    expect((await listed('-o', 'name')).trimEnd().split('\n')).toHaveLength(hostile.length)
  })
})

test('ls --watch prints the locks, then those that change, until it is interrupted', async () => {
  const { leasehold, shown, store } = cliBench()
  await using locks = await connect(store)
  const lease = await locks.acquire('nightly')
  await locks.acquire('steady')
  const watching = leasehold('ls', '--watch', '-o', 'name')
  await expect.poll(() => shown.output).toBe('nightly\nsteady\n')
  await lease.release()
  await expect.poll(() => shown.output).toBe('nightly\nsteady\nnightly\n')
  process.emit('SIGINT', 'SIGINT')
  expect(await watching).toBe(130)
})

test.each([['ls'], ['explain']])('%s says how to set up a store where none has been used', async (command) => {
  const { leasehold, shown, context } = cliBench()
  context.variables = { HOME: '/nonexistent', XDG_STATE_HOME: '/nonexistent' }
  context.connect = (_url, options) => connect('memory:nothing-set-up', options)
  expect(await leasehold(command)).toBe(0)
  expect(shown.errors).toMatch(/LEASEHOLD_STORE/)
  expect(shown.errors).toMatch(/leasehold run/)
})

describe('a table', () => {
  const headings = headingsOf({ namespaces: false, wide: true, symbols: true })
  const row = headings.map((heading) =>
    heading === 'NAME' ? '請求書/長い名前🔒e\u0301' : heading === '' ? '▲' : 'cell',
  )
  const shownAt = (columns: number) =>
    new Table(headings, columns, droppableHeadings)
      .lines([row])
      .map((line) => renderLine(line, { colour: false, columns }))

  test('keeps wide characters in their columns', () => {
    const [head = '', line = ''] = shownAt(200)
    const columnOf = (text: string, word: string) => textWidth(text.slice(0, text.indexOf(word)))
    expect(columnOf(line, 'cell')).toBe(columnOf(head, 'KIND'))
  })

  test('leaves out columns in their order, and never NAME, AGE and WAITING', () => {
    let left = [...headings]
    for (let columns = 200; columns >= 30; columns -= 1) {
      const lines = shownAt(columns)
      for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(columns)
      const words = (lines[0] ?? '').split(/ +/)
      const shown = headings.filter((heading) => heading === '' || words.includes(heading))
      const gone = left.filter((heading) => !shown.includes(heading))
      for (const heading of gone) expect(droppableHeadings).toContain(heading)
      left = shown
    }
    expect(left).toEqual(['', 'NAME', 'AGE', 'WAITING'])
  })
})
