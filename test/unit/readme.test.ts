import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readmeWith } from '../../bench/page/readme.ts'
import { blocksOf } from '../docs/blocks.ts'

const readme = readFileSync('README.md', 'utf8')

test('the README has the measured ratios of benchmarks.md; `npm run bench -- page` writes both', () => {
  expect(readme).toBe(readmeWith(readme, readFileSync('docs/benchmarks.md', 'utf8')))
  expect(readme).toMatch(/\| redis-semaphore \| .*(?:ahead|behind)/)
})

test('a ratio that was measured again is changed in the README, and nothing else is', () => {
  const changed = readmeWith(
    readme,
    '| [pairs](benchmarks/notebook.md#redis) | redlock | 9, 3 pairs/s | 3× ahead | 3 | none |\n',
  )
  const [added, ...others] = changed.split('\n').filter((line) => !readme.includes(line))
  expect([added, others]).toEqual([
    '| [pairs](docs/benchmarks/notebook.md#redis) | redlock | 9, 3 pairs/s | 3× ahead |',
    [],
  ])
})

test('the first program takes about ten lines', () => {
  const [first] = blocksOf('README.md', readme).filter(({ language }) => language === 'ts')
  expect(first?.text.trim().split('\n').length).toBeLessThanOrEqual(11)
})
