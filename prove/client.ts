/**
 * The client in simulated storms, for the given minutes (default 1), from a seed (default 1001) on: messages are lost, late and
 * repeated, processes stopped, closed and killed, and true time judges who held what.
 */
import { report } from '../bench/report.ts'
import { tour } from '../test/unit/client/tour.ts'
import { clientTour } from './simulate/client-tours.ts'

const [minutes = '1', firstSeed = '1001'] = process.argv.slice(2)
if (!(Number(minutes) > 0) || !Number.isSafeInteger(Number(firstSeed))) {
  console.error('Usage: npm run prove -- client [MINUTES] [FIRST SEED], e.g. npm run prove -- client 10 5000')
  process.exit(2)
}

// Stacks are slow to make for so many errors, and the history says what happened.
Error.stackTraceLimit = 0

const tellEveryMs = 10_000
const startedAt = performance.now()
const until = startedAt + Number(minutes) * 60_000
const found = { tours: 0, holds: 0, violations: 0, stuck: 0, left: 0, orphans: 0, overtrusted: 0, timers: 0, traces: 0 }
let tellAt = startedAt + tellEveryMs

for (let seed = Number(firstSeed); performance.now() < until; seed += 1) {
  const { summary, violations, stuck, left, orphans, overtrusted, timers, traces } = await tour(clientTour(seed))
  found.tours += 1
  found.holds += summary.holds
  found.violations += violations.length
  found.stuck += stuck.length
  found.left += left.length
  found.orphans += orphans.length
  found.overtrusted += overtrusted.length
  found.timers += timers
  found.traces += traces.length
  for (const { message } of violations) console.log(`seed ${seed}: ${message}`)
  if (stuck.length + left.length + orphans.length + overtrusted.length + timers + traces.length > 0)
    console.log(`seed ${seed}:`, { stuck, left, orphans, overtrusted, timers, traces })
  if (performance.now() < tellAt) continue
  tellAt += tellEveryMs
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  console.log(`${seconds} s: ${found.tours} tours, ${found.holds} holds, ${found.violations} violations`)
}

const { tours, holds, ...faults } = found
report({
  name: 'client',
  figures: { tours, holds, firstSeed: Number(firstSeed) },
  bars: {
    tours: { actual: tours, atLeast: 1 },
    ...Object.fromEntries(Object.entries(faults).map(([name, actual]) => [name, { actual, atMost: 0 }])),
  },
})
