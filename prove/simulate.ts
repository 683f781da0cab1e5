/**
 * Client schedules in simulated time, one a seed: `npm run prove -- simulate [COUNT] [FIRST SEED] [PROCESSES]`, a million from seed 1 on by
 * default. Every kind of lock, of store, of weather and of composition, 20 simulated seconds or more each. What was played at this
 * commit is not played again. `simulate replay SEED [REDUCTION]` plays one, `simulate shrink SEED` leaves out what a violation does
 * not need; a last word `planted` plants a fault.
 */
import { execFileSync, fork } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { createHash } from 'node:crypto'
import { report } from '../bench/report.ts'
import { nextMessage } from '../bench/support/child.ts'
import type { RangeOutcome } from './children/schedules.ts'
import { openWithShortLeases } from './simulate/planted.ts'
import { scheduleOf } from './simulate/schedules.ts'
import { parseReduction, reductionWord, shrink } from './simulate/shrink.ts'

const words = process.argv.slice(2)
const open = words.at(-1) === 'planted' ? openWithShortLeases : undefined
if (open !== undefined) words.pop()
const rangeSize = 200
const tellEveryMs = 30_000

if (words[0] === 'replay') await replay(Number(words[1]), words[2] ?? '{}')
else if (words[0] === 'shrink') await shrunk(Number(words[1]))
else await playAll(Number(words[0] ?? 1_000_000), Number(words[1] ?? 1), Number(words[2] ?? availableParallelism()))

async function replay(seed: number, word: string): Promise<void> {
  const schedule = scheduleOf(seed, open)
  const { wrong, holds, faults, hash } = await schedule.play(parseReduction(word))
  console.log(`${schedule.name}: ${holds} holds, ${faults} faults, story ${hash}`)
  for (const message of wrong) console.log(message)
  process.exitCode = wrong.length > 0 ? 1 : 0
}

async function shrunk(seed: number): Promise<void> {
  const schedule = scheduleOf(seed, open)
  const found = await shrink(schedule)
  if (found === undefined) return console.log(`Nothing is wrong with seed ${seed}.`)
  const { reduction, played, tries } = found
  const count = reduction.faults?.size ?? played.faults
  console.log(`${schedule.name}: ${played.wrong[0]}\n${count} faults left, after ${tries} tries. Replay:`)
  const last = open === undefined ? '' : ' planted'
  console.log(`  npm run prove -- simulate replay ${seed} '${reductionWord(reduction)}'${last}`)
  process.exitCode = 1
}

async function playAll(count: number, firstSeed: number, processes: number): Promise<void> {
  if (!(count > 0) || !Number.isSafeInteger(firstSeed) || !(processes > 0)) {
    console.error(
      'Usage: npm run prove -- simulate [COUNT] [FIRST SEED] [PROCESSES], e.g. npm run prove -- simulate 20000 1 2',
    )
    process.exitCode = 2
    return
  }
  const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8' }).trim()
  const file = path.join('.build/proof', `simulate-${commit}.jsonl`)
  mkdirSync(path.dirname(file), { recursive: true })
  const done = new Map(readOutcomes(file).map((outcome) => [`${outcome.from}-${outcome.to}`, outcome]))
  const ranges = Array.from({ length: Math.ceil(count / rangeSize) }, (_, index) => {
    const from = firstSeed + index * rangeSize
    return { from, to: Math.min(from + rangeSize, firstSeed + count) }
  })
  const left = ranges.filter(({ from, to }) => !done.has(`${from}-${to}`))
  const known = ranges.length - left.length
  if (known > 0) console.log(`${known} of ${ranges.length} ranges were played before: ${file}`)
  const startedAt = performance.now()
  let played = 0
  let tellAt = startedAt + tellEveryMs

  const child = async (): Promise<void> => {
    const program = fileURLToPath(new URL('children/schedules.js', import.meta.url))
    const player = fork(program)
    await nextMessage(player)
    for (let range = left.shift(); range !== undefined; range = left.shift()) {
      const answer = nextMessage(player) as Promise<RangeOutcome>
      player.send(range)
      const outcome = await answer
      appendFileSync(file, `${JSON.stringify(outcome)}\n`)
      done.set(`${outcome.from}-${outcome.to}`, outcome)
      played += outcome.to - outcome.from
      for (const { seed, messages } of outcome.wrong) {
        console.log(`seed ${seed}: ${messages.join('; ')}\n  npm run prove -- simulate shrink ${seed}`)
      }
      if (performance.now() < tellAt) continue
      tellAt = performance.now() + tellEveryMs
      const perSecond = played / ((performance.now() - startedAt) / 1000)
      const hours = (left.length * rangeSize) / perSecond / 3600
      console.log(`${played} schedules, ${perSecond.toFixed(0)} a second, ${hours.toFixed(1)} hours left`)
    }
    player.kill()
  }
  await Promise.all(Array.from({ length: processes }, child))

  const all = ranges.map(({ from, to }) => done.get(`${from}-${to}`)).filter((outcome) => outcome !== undefined)
  const sum = (of: (outcome: RangeOutcome) => number): number => all.reduce((total, outcome) => total + of(outcome), 0)
  const seconds = (performance.now() - startedAt) / 1000
  const hash = createHash('sha256')
  for (const outcome of all) hash.update(outcome.hash)
  report({
    name: 'simulate',
    figures: {
      seeds: `${firstSeed} to ${firstSeed + count - 1}`,
      schedules: sum(({ from, to }) => to - from),
      holds: sum(({ holds }) => holds),
      faults: sum(({ faults }) => faults),
      stories: hash.digest('hex').slice(0, 16),
      'schedules per second and process': played / seconds / processes,
    },
    bars: {
      violations: { actual: sum(({ wrong }) => wrong.length), atMost: 0 },
      'another story for the same seed': { actual: sum(({ unstable }) => unstable.length), atMost: 0 },
    },
  })
}

function readOutcomes(file: string): RangeOutcome[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n')
  // After the last line break there is nothing, or half a line.
  lines.pop()
  return lines.map((line) => JSON.parse(line) as RangeOutcome)
}
