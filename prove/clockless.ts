/**
 * Leases without a store clock: `npm run prove -- clockless [COUNT] [FIRST SEED] [PROCESSES]`, 200,000 schedules from seed 1 on by default, of
 * processes whose clocks are off by up to a twentieth and whose wall clocks by up to an hour, with messages lost, late and repeated. True
 * time judges who held what. `clockless replay SEED` plays one.
 */
import { clocklessSchedule } from './simulate/clockless-schedule.ts'
import { playSchedules } from './support/play-schedules.ts'

const words = process.argv.slice(2)

if (words[0] === 'replay') await replay(Number(words[1]))
else await playSchedules('clockless', words, 200_000)

async function replay(seed: number): Promise<void> {
  const { name, play } = clocklessSchedule(seed)
  const { wrong, holds, hash } = await play()
  console.log(`${name}: ${holds} holds, story ${hash}`)
  for (const message of wrong) console.log(message)
  process.exitCode = wrong.length > 0 ? 1 : 0
}
