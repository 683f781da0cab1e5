import { execFileSync, fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { report } from '../../bench/report.ts'
import { nextMessage } from '../../bench/support/child.ts'
import type { RangeOutcome, ScheduleKind } from '../children/schedules.ts'

const rangeSize = 200
const tellEveryMs = 30_000
/** The command that looks closer at one seed. */
const again: Readonly<Record<ScheduleKind, string>> = { simulate: 'simulate shrink', clockless: 'clockless replay' }

/**
 * Plays the schedules of `count` seeds from the first on, which the command line may name, in as many processes as there are processors,
 * tells how far it has come, and reports. What was played at this commit is not played again.
 */
export async function playSchedules(kind: ScheduleKind, words: readonly string[], usualCount: number): Promise<void> {
  const count = Number(words[0] ?? usualCount)
  const firstSeed = Number(words[1] ?? 1)
  const processes = Number(words[2] ?? availableParallelism())
  if (!(count > 0) || !Number.isSafeInteger(firstSeed) || !(processes > 0)) {
    const usage = `npm run prove -- ${kind} [COUNT] [FIRST SEED] [PROCESSES]`
    console.error(`Usage: ${usage}, e.g. npm run prove -- ${kind} 20000 1 2`)
    process.exitCode = 2
    return
  }
  const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8' }).trim()
  const file = path.join('.build/proof', `${kind}-${commit}.jsonl`)
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
    const program = fileURLToPath(new URL('../children/schedules.js', import.meta.url))
    const player = fork(program)
    await nextMessage(player)
    for (let range = left.shift(); range !== undefined; range = left.shift()) {
      const answer = nextMessage(player) as Promise<RangeOutcome>
      player.send({ kind, ...range })
      const outcome = await answer
      appendFileSync(file, `${JSON.stringify(outcome)}\n`)
      done.set(`${outcome.from}-${outcome.to}`, outcome)
      played += outcome.to - outcome.from
      for (const { seed, messages } of outcome.wrong) {
        console.log(`seed ${seed}: ${messages.join('; ')}\n  npm run prove -- ${again[kind]} ${seed}`)
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
    name: kind,
    figures: {
      seeds: `${firstSeed} to ${firstSeed + count - 1}`,
      schedules: sum(({ from, to }) => to - from),
      holds: sum(({ holds }) => holds),
      ...(kind === 'simulate' && { faults: sum(({ faults }) => faults) }),
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
