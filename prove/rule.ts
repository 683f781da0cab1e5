/**
 * Everything that can happen to one key, for the given minutes (default 1): each choice of one claim, of two, then of three
 * and four, from a seed (1) on in another order; all that they may ask, early, late and repeated, and ticks of time.
 */
import { report } from '../bench/report.ts'
import { seededRandom } from '../src/testing/random.ts'
import { choices, sceneOf, type Scene } from '../test/unit/admission/scene.ts'
import { search } from '../test/unit/admission/search.ts'

const [minutes = '1', seed = '1'] = process.argv.slice(2)
if (!(Number(minutes) > 0) || !Number.isSafeInteger(Number(seed))) {
  console.error('Usage: npm run prove -- rule [MINUTES] [SEED], e.g. npm run prove -- rule 10 7')
  process.exit(2)
}

const tellEveryMs = 10_000
const startedAt = performance.now()
const until = startedAt + Number(minutes) * 60_000
const isOver = (): boolean => performance.now() >= until
const found = { scenes: 0, states: 0, transitions: 0, complaints: 0 }
let tellAt = startedAt + tellEveryMs

for (const scene of scenes()) {
  const { states, transitions, complete, complaint } = search(scene, { isOver })
  if (complete) found.scenes += 1
  found.states += states
  found.transitions += transitions
  if (complaint !== undefined) {
    found.complaints += 1
    console.log(complaint)
  }
  if (isOver()) break
  if (performance.now() < tellAt) continue
  tellAt += tellEveryMs
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  console.log(`${seconds} s: ${found.scenes} scenes, ${found.states} states, ${found.transitions} transitions`)
}

const { complaints, ...figures } = found
report({
  name: 'rule',
  figures: { ...figures, seed: Number(seed) },
  bars: { scenes: { actual: found.scenes, atLeast: 1 }, complaints: { actual: complaints, atMost: 0 } },
})

function* scenes(): Generator<Scene> {
  for (const size of [1, 2, 3, 4]) {
    const all = [...choices(size)]
    for (const names of size < 3 ? all : shuffled(all)) {
      yield sceneOf(names)
      yield sceneOf(names, 2)
    }
  }
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  const random = seededRandom(Number(seed))
  const drawn = items.map((item) => ({ item, lot: random() }))
  return drawn.toSorted((a, b) => a.lot - b.lot).map(({ item }) => item)
}
