import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { pages } from '../docs/blocks.ts'

/** Tests by the name of their file, as pages call them: those of one name in several folders together. */
const tests = new Map<string, string>()
for (const folder of ['test/unit', 'test/integration', 'test/slow']) {
  for (const file of readdirSync(folder).filter((each) => each.endsWith('.test.ts'))) {
    const name = file.slice(0, -'.test.ts'.length)
    // Tests that several servers run are beside, in a file of the same name.
    const shared = `test/support/${name}.ts`
    for (const part of [path.join(folder, file), ...(existsSync(shared) ? [shared] : [])]) {
      tests.set(name, `${tests.get(name) ?? ''}${readFileSync(part, 'utf8')}`)
    }
  }
}

/** The suites that every store runs, and what the compositions are called; their tests are registered by the file of each store. */
const suites = ['src/testing', 'test/composition', 'test/unit/composition']
  .flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(path.join(folder, file), 'utf8')),
  )
  .join('\n')

/** The last cells of tables whose last column says which test shows it. */
function shownBy(page: string): string[] {
  const cells: string[] = []
  let shows = false
  for (const line of readFileSync(page, 'utf8').split('\n')) {
    const last = line.startsWith('|') ? line.split('|').at(-2)?.trim() : undefined
    if (shows && last !== undefined) cells.push(last)
    shows = last !== undefined && (shows || last === 'shown by')
  }
  // The line of dashes below the head.
  return cells.filter((cell) => !/^-+$/.test(cell))
}

describe.each(pages().filter((page) => shownBy(page).length > 0))('%s', (page) => {
  test('names tests that there are', () => {
    const names = shownBy(page).flatMap((cell) => [...cell.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name))
    expect(names.filter((name) => !tests.has(name))).toEqual([])
  })

  test('quotes their titles', () => {
    const quoted = shownBy(page)
      .flatMap((cell) => cell.split(';'))
      .flatMap((part) => {
        const [, name = '', titles = ''] = /^\s*`([\w-]+)`: (.*)$/.exec(part) ?? []
        // Three dots stand for what is left out; a comma, mostly, is between two titles.
        return titles.split(/…|, /).map((title) => [name, title.trim()] as const)
      })
    const wrong = quoted.filter(
      ([name, title]) => title !== '' && !tests.get(name)?.includes(title) && !suites.includes(title),
    )
    expect(wrong).toEqual([])
  })
})
