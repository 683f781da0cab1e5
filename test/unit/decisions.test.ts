import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

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

test('no two records have one number', () => {
  const numbers = records.map((name) => name.slice(0, 3))
  expect(new Set(numbers).size).toBe(numbers.length)
})
