import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import config from '../../vitest.config.ts'
import { longest } from '../support/test-order.ts'

const projects = (config.test?.projects ?? []).flatMap((project) =>
  typeof project === 'object' && 'test' in project ? [project.test ?? {}] : [],
)
const files = (name: string): readonly string[] => projects.find((project) => project.name === name)?.include ?? []

test('files that are chosen by name are there: a file that was renamed would run at another time, or twice', () => {
  const named = projects.flatMap(({ include = [] }) => include).filter((file) => !file.includes('*'))
  expect(named.length).toBeGreaterThan(5)
  expect(named.filter((file) => !existsSync(file))).toEqual([])
  const places = (name: string): string[] => ['unit', 'integration'].map((folder) => `test/${folder}/${name}.test.ts`)
  expect(longest.filter((name) => !places(name).some((file) => existsSync(file)))).toEqual([])
})

test('every test runs by test:all: each project is one of its plan', () => {
  const plans = readFileSync('scripts/test.mjs', 'utf8')
  const [, everything = ''] = /everything: \{.*projects: \[(.*?)\]/.exec(plans) ?? []
  const chosen = [...everything.matchAll(/'([^']+)'/g)].map(
    ([, name = '']) => new RegExp(`^${name.replace('*', '.*')}$`),
  )
  expect(
    projects.filter(({ name }) => !chosen.some((pattern) => pattern.test(typeof name === 'string' ? name : ''))),
  ).toEqual([])
  // Nothing is left out of one project that is not in another.
  const left = projects.flatMap(({ exclude = [] }) => exclude)
  const elsewhere = [...files('integration-alone'), ...files('long')]
  expect(left.filter((file) => !elsewhere.includes(file))).toEqual([])
})
