/**
 * Client schedules in simulated time, one a seed: `npm run prove -- simulate [COUNT] [FIRST SEED] [PROCESSES]`, a million from seed 1 on by
 * default. Every kind of lock, of store, of weather and of composition, 20 simulated seconds or more each. What was played at this
 * commit is not played again. `simulate replay SEED [REDUCTION]` plays one, `simulate shrink SEED` leaves out what a violation does
 * not need; a last word `planted` plants a fault.
 */
import { openWithShortLeases } from './simulate/planted.ts'
import { scheduleOf } from './simulate/schedules.ts'
import { parseReduction, reductionWord, shrink } from './simulate/shrink.ts'
import { playSchedules } from './support/play-schedules.ts'

const words = process.argv.slice(2)
const open = words.at(-1) === 'planted' ? openWithShortLeases : undefined
if (open !== undefined) words.pop()

if (words[0] === 'replay') await replay(Number(words[1]), words[2] ?? '{}')
else if (words[0] === 'shrink') await shrunk(Number(words[1]))
else await playSchedules('simulate', words, 1_000_000)

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
