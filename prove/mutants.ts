/**
 * Plants faults in the source, one at a time as it is loaded, and runs the suites that must find them.
 *
 *   npm run prove -- mutants             all, after a control without any fault; writes docs/proof-mutants.md
 *   npm run prove -- mutants NAME …      those whose name or room has one of these words in it
 *   npm run prove -- mutants --list      names them
 *   --jobs N                             so many at a time (default 2)
 *   --left                               only those that were not found when they were last planted
 *   --no-control                         without the control
 *   --only-control                       nothing but the control
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { report } from '../bench/report.ts'
import { planted, type Mutant } from './mutants/mutant.ts'
import { isGood, mutantsPage, readResults, saveResult, type MutantResult } from './mutants/results.ts'
import { grouped, rooms } from './mutants/rooms.ts'
import { runSuites } from './mutants/run-suite.ts'

const suiteMaxMs = 600_000
const root = fileURLToPath(new URL('../..', import.meta.url))
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    list: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '2' },
    left: { type: 'boolean', default: false },
    'no-control': { type: 'boolean', default: false },
    'only-control': { type: 'boolean', default: false },
  },
})

interface Planned {
  readonly room: string
  readonly name: string
  readonly mutant: Mutant
}

const all = Object.entries(rooms).flatMap(([room, mutants]) =>
  Object.entries(mutants).map(([name, mutant]): Planned => ({ room, name, mutant })),
)
const done = new Set(readResults().flatMap(({ outcome, name }) => (isGood(outcome) ? [name] : [])))
const wanted = all.filter(({ room, name }) => {
  const isNamed =
    positionals.length === 0 ||
    positionals.some((word) => (Object.hasOwn(rooms, word) ? room === word : name.includes(word)))
  return isNamed && !(values.left && done.has(name))
})
if (wanted.length === 0) {
  console.error(`No mutant has ${positionals.join(' or ')} in its name. npm run prove -- mutants --list names them.`)
  process.exit(2)
}
if (values.list) for (const { room, name, mutant } of wanted) console.log(`${room}: ${name} (${mutant.file})`)
else if (values['only-control']) process.exitCode = (await control()) ? 0 : 1
else await prove()

async function prove(): Promise<void> {
  for (const { name, mutant } of wanted) planted(name, mutant, readFileSync(path.join(root, mutant.file), 'utf8'))
  const isSound = values['no-control'] || (await control())
  const names = all.map(({ name }) => name)
  const today: MutantResult[] = []
  const waiting = [...wanted]
  await Promise.all(
    Array.from({ length: isSound ? Number(values.jobs) : 0 }, async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const result = await played(next)
        today.push(result)
        // As it goes: a long run that is stopped keeps what it found.
        saveResult(result, names)
      }
    }),
  )
  writeFileSync(path.join(root, 'docs/proof-mutants.md'), mutantsPage(readResults(), all.length))
  const count = (outcome: MutantResult['outcome']): number =>
    today.filter((result) => result.outcome === outcome).length
  report({
    name: 'mutants',
    figures: { planted: today.length, found: count('found'), equivalent: count('equivalent') },
    bars: {
      'suites that fail without a mutant': { actual: isSound ? 0 : 1, atMost: 0 },
      survived: { actual: count('SURVIVED'), atMost: 0 },
      'broken or timed out': { actual: count('broken') + count('timed out'), atMost: 0 },
    },
  })
}

/** Whether every suite passes while no mutant is planted. */
async function control(): Promise<boolean> {
  const suites = [...new Set(wanted.flatMap(({ mutant }) => mutant.foundBy))]
  // Tests of a title, and the files of a project, are a run each.
  const runs = grouped(suites, (suite) => (suite.includes(' > ') ? suite : (suite.split('/')[0] ?? '')))
  let isSound = true
  for (const run of runs.values()) {
    const { outcome, by } = await runSuites(run, undefined, suiteMaxMs * run.length)
    if (outcome === 'passed') continue
    isSound = false
    console.log(`control ${outcome}: ${run.join(', ')}: ${by}`)
  }
  if (isSound) console.log(`control: ${suites.length} suites pass without a mutant`)
  return isSound
}

/** Plants one mutant and runs its suites until one finds it. */
async function played({ room, name, mutant }: Planned): Promise<MutantResult> {
  const startedAt = performance.now()
  let outcome: MutantResult['outcome'] = mutant.equivalent === undefined ? 'SURVIVED' : 'equivalent'
  let by = mutant.equivalent ?? ''
  for (const suite of mutant.foundBy) {
    const result = await runSuites([suite], name, suiteMaxMs)
    if (result.outcome === 'passed') continue
    outcome = result.outcome === 'failed' ? 'found' : result.outcome
    by = result.outcome === 'failed' ? `${suite.split(' > ')[0]}: ${result.by}` : result.by
    break
  }
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  console.log(`${outcome} in ${seconds} s: ${room}: ${name}\n    ${by || mutant.foundBy.join(', ')}`)
  return { room, name, file: mutant.file, outcome, by, seconds }
}
