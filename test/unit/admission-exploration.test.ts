import { describe, expect, test, vi } from 'vitest'
import type { admit } from '../../src/core/rule/admission.ts'
import { mutants, type Mutant } from './admission/mutants.ts'
import { choices, sceneOf, type PartName, type Scene } from './admission/scene.ts'
import { search } from './admission/search.ts'

/** Three or four that have something to do with each other. `npm run prove -- rule` takes all there are. */
const crowds: readonly (readonly PartName[])[] = [
  ['writer', 'writer', 'writer', 'writer'],
  ['reader', 'reader', 'writer'],
  ['reader', 'writer', 'urgent writer'],
  ['holder of one of two permits', 'holder of one of two permits', 'holder of one of two permits'],
  ['holder of one of two permits', 'holder of the only permit', 'reader'],
  ['writer on the left', 'writer in the middle', 'writer on the right'],
  ['reader', 'reader', 'preempting writer'],
  ['writer', 'graceful writer', 'writer that takes from the silent'],
  ['writer of my runner', 'reader that takes back', 'writer'],
  ['reader', 'reader', 'writer by force'],
  ['mortal writer', 'writer', 'impatient, urgent reader'],
]

const couples: readonly (readonly PartName[])[] = [
  ['reader that upgrades', 'reader that upgrades'],
  ['writer that moves to the right', 'writer that moves to the left'],
  ['reader that tries to upgrade', 'writer that downgrades'],
  ['reader that upgrades, for three ticks at most', 'reader that lifts fences'],
  ['writer that changes its ttl', 'writer for three ticks at most'],
]

function explored(scenes: Iterable<Scene>): { states: number; transitions: number } {
  const seen = { states: 0, transitions: 0 }
  for (const scene of scenes) {
    const { states, transitions, complaint } = search(scene)
    if (complaint !== undefined) expect.fail(complaint)
    seen.states += states
    seen.transitions += transitions
  }
  return seen
}

describe('whatever is asked, early, late and repeated, in every order and at every tick, the rule keeps its promises:', () => {
  test.each([
    ['to each claim alone, also when the clock is set back', () => [...choices(1)].flatMap(withClockSetBack), 3000],
    ['to two that convert, move or change their leases', () => couples.map((names) => sceneOf(names)), 4000],
    ['to three and four that want the same key', () => crowds.map((names) => sceneOf(names)), 3000],
  ])('%s', { timeout: 60_000 }, (_who, scenes, statesAtLeast) => {
    expect(explored(scenes()).states).toBeGreaterThan(statesAtLeast)
  })

  test('positions that differ only in who stands where, or by how long ago, are one', () => {
    const { states, complete } = search(sceneOf(['writer', 'writer']))
    expect({ states, complete }).toEqual({ states: 39, complete: true })
  })
})

function withClockSetBack(names: readonly PartName[]): readonly Scene[] {
  return [sceneOf(names), sceneOf(names, 2)]
}

describe('the same search finds a rule that', () => {
  test.each(Object.entries(mutants))('%s', async (_name, mutant) => {
    const scene = sceneOf(mutant.scene, mutant.backTicks)
    expect(search(scene).complaint).toBeUndefined()
    expect(search(scene, { rule: await planted(mutant) }).complaint).toMatch(mutant.complaint)
  })
})

/** The rule, made anew around a part that has been changed. */
async function planted({ module, replace, wrap }: Mutant): Promise<typeof admit> {
  const file = `../../src/core/rule/${module}.ts`
  vi.resetModules()
  if (module !== undefined && replace !== undefined) {
    const real = await vi.importActual<Parameters<typeof replace>[0]>(file)
    vi.doMock(file, () => ({ ...real, ...replace(real) }))
  }
  const { admit: rule } = await import('../../src/core/rule/admission.ts')
  if (module !== undefined) vi.doUnmock(file)
  vi.resetModules()
  return wrap === undefined ? rule : wrap(rule)
}
