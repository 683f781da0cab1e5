import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { planted } from '../../prove/mutants/mutant.ts'
import { rooms } from '../../prove/mutants/rooms.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const all = Object.values(rooms).flatMap((mutants) => Object.entries(mutants))

describe('the faults that npm run prove -- mutants plants', () => {
  test('have names of their own', () => {
    const names = all.map(([name]) => name)
    expect(names).toEqual([...new Set(names)])
  })

  for (const [room, mutants] of Object.entries(rooms)) {
    test(`in ${room} have exactly one place each, and change it`, () => {
      const faults: string[] = []
      for (const [name, mutant] of Object.entries(mutants)) {
        try {
          const source = readFileSync(path.join(root, mutant.file), 'utf8')
          if (planted(name, mutant, source) === source) faults.push(`mutant "${name}" changes nothing`)
        } catch (error) {
          faults.push(String(error))
        }
      }
      expect(faults).toEqual([])
    })
  }

  test('are to be found by suites that exist', () => {
    const suites = new Set(all.flatMap(([, { foundBy }]) => foundBy.map((suite) => suite.split(' > ')[0] ?? '')))
    const missing = [...suites].filter((suite) => {
      const [project = '', name = ''] = suite.split('/')
      return !existsSync(path.join(root, 'test', project === 'unit' ? 'unit' : 'integration', `${name}.test.ts`))
    })
    expect(missing).toEqual([])
  })

  test('are refused where their place is not exactly one', () => {
    const mutant = { file: 'a.ts', find: 'now', replace: 'then', foundBy: ['unit/a'] } as const
    expect(planted('is late', mutant, 'at now')).toBe('at then')
    expect(() => planted('is late', mutant, 'now and now')).toThrow(/"is late": its text occurs 2 times in a\.ts/)
    expect(() => planted('is late', mutant, 'then')).toThrow(/occurs 0 times/)
  })
})
