/** What runs wherever `fetch` exists reaches no module of Node: not by a path that a bundler or a browser would follow. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

/** Imports of modules, whether at once or by a literal `import()`. Those of types alone are gone when it runs. */
const imports =
  /(?:^|[;\n])\s*(?:import|export)\b(?!\s+type\b)[^'"`;()]*?from\s*['"]([^'"]+)['"]|(?:^|[;\n])\s*import\s*['"]([^'"]+)['"]|\b(?:import|require)\s*\(\s*(?:\/\*.*?\*\/\s*)?['"]([^'"]+)['"]/g
const importsAtOnce = /(?:^|[;\n])\s*(?:import|export)\b(?!\s+type\b)[^'"`;()]*?from\s*['"]([^'"]+)['"]/g

/** Every module that is reached from a file and is none of ours, with the way to it. */
function reachedFrom(entry: string, form: RegExp): string[] {
  const ways = new Map([[entry, entry]])
  const foreign: string[] = []
  for (const [file, way] of ways) {
    for (const match of readFileSync(file, 'utf8').matchAll(form)) {
      const specifier = match.slice(1).find((each) => each !== undefined) ?? ''
      if (!specifier.startsWith('.')) foreign.push(`${way} > ${specifier}`)
      else {
        const target = path.posix.join(path.posix.dirname(file), specifier)
        if (!ways.has(target)) ways.set(target, `${way} > ${target}`)
      }
    }
  }
  // Less would mean that the imports were not found.
  expect(ways.size).toBeGreaterThan(10)
  return foreign
}

test.each([
  'src/drivers/http/driver.ts',
  'src/drivers/s3/driver.ts',
  'src/api/create-locks.ts',
  'src/edge/index.ts',
  'src/web/index.ts',
])('no module outside this package is reached from %s', (entry) => {
  expect(reachedFrom(entry, imports)).toEqual([])
})

test('the root can be loaded where there is no Node: connect loads what needs it when it is called', () => {
  expect(reachedFrom('src/index.ts', importsAtOnce)).toEqual([])
})

test('a driver of Node is found by the same search, so that the search can fail', () => {
  expect(reachedFrom('src/drivers/sqlite/driver.ts', imports).some((way) => way.endsWith('> node:fs'))).toBe(true)
  expect(reachedFrom('src/index.ts', imports).some((way) => way.includes('> node:'))).toBe(true)
})
