import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { pages } from '../docs/blocks.ts'

const folder = 'docs/decisions'
const records = readdirSync(folder).filter((name) => /^\d{3}-.*\.md$/.test(name))
const index = readFileSync(`${folder}/README.md`, 'utf8')

test.each(records)('%s has a number, a status with its date, and a line in the index', (name) => {
  const text = readFileSync(`${folder}/${name}`, 'utf8')
  const [, number, title, status, date] =
    /^# (\d{3}) · (.+)\n\n(Accepted|Superseded by \d{3}), (\d{4}-\d\d-\d\d)\.\n\n/.exec(text) ?? []
  expect(number).toBe(name.slice(0, 3))
  expect(index).toContain(`| ${number} | [${title}](${name}) | ${status?.toLowerCase()}, ${date} |`)
})

test.each(records)('%s has the four parts, and no headings of its own', (name) => {
  const text = readFileSync(`${folder}/${name}`, 'utf8')
  const parts = ['Problem', 'Decision', 'Rejected', 'Cost'].map((part) => text.indexOf(`\n**${part}.**`))
  expect(parts).not.toContain(-1)
  expect(parts.toSorted((left, right) => left - right)).toEqual(parts)
  expect(text).not.toMatch(/^##/m)
})

test('no two records have one number', () => {
  const numbers = records.map((name) => name.slice(0, 3))
  expect(new Set(numbers).size).toBe(numbers.length)
})

/** Every file and folder of the repository that pages name, with the folders above it: `src`, `src/core`, `src/core/errors.ts`. */
const paths = ['src', 'test', 'scripts', 'bench', 'prove', 'examples', 'deploy']
  .flatMap((root) => [
    root,
    ...readdirSync(root, { recursive: true, encoding: 'utf8' }).map((file) => `${root}/${file}`),
  ])
  // Not all that is below it: its tools are installed there.
  .concat(readdirSync('site').map((file) => `site/${file}`))
  .map((file) => `/${file.replaceAll('\\', '/')}`)

/** What a page names as a file of ours: a path that begins with a folder of `src/`, or the name of a source file. */
function namedFiles(page: string): string[] {
  const prose = readFileSync(page, 'utf8').replaceAll(/^ *```[^]*?^ *```/gm, '')
  const quoted = [...prose.matchAll(/`([^`\s]+)`/g)].map(([, text = '']) => text)
  const rooted = /^(?:src|core|drivers|server|api|cli|telemetry|testing|test|scripts|bench|prove)\/[\w./-]*$/
  return quoted.filter((text) => rooted.test(text) || /^[a-z][\w/-]*\.(?:ts|lua|sql)$/.test(text))
}

test.each(pages().filter((page) => page !== 'ARCHITECTURE.md'))('%s names files that there are', (page) => {
  const missing = namedFiles(page).filter((name) => !paths.some((file) => file.endsWith(`/${name.replace(/\/$/, '')}`)))
  expect(missing).toEqual([])
})
