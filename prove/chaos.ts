/**
 * Real client processes and faults from a seed on a real store: `npm run prove -- chaos STORE [MINUTES] [SEED] [record]`. Clients are
 * killed and stopped, connections cut, silent and slow, servers crash, freeze, fail over and come back empty or older, clocks jump,
 * disks fill. Nothing may overlap, no fenced update be lost, every waiter be served; an update without a fence must be lost, or the
 * run was too weak. `record` adds the run to docs/proof.
 */
import { report } from '../bench/report.ts'
import { monotonicMs } from '../src/core/machine/machine-clock.ts'
import { reportOf } from './chaos/outcome.ts'
import { faultLine, planRound } from './chaos/plan.ts'
import { record } from './chaos/record.ts'
import { abilitiesOf, chaos } from './chaos/run.ts'
import { chaosStores } from './chaos/stores.ts'

const [name = '', minutes = '1', seed = '1', recorded] = process.argv.slice(2)
const open = chaosStores[name]
if (open === undefined || !(Number(minutes) >= 0) || !Number.isSafeInteger(Number(seed))) {
  console.error(
    `Usage: npm run prove -- chaos STORE [MINUTES] [SEED] [record], e.g. npm run prove -- chaos redis 5 42\nStores: ${Object.keys(chaosStores).join(', ')}\n0 minutes: prints the plan of the first round`,
  )
  process.exit(2)
}

const roundMs = 15_000
const store = await open(Number(seed))
try {
  if (Number(minutes) === 0) {
    for (const fault of planRound(Number(seed), 0, abilitiesOf(store), roundMs)) console.log(faultLine(fault))
  } else {
    const outcome = await chaos(store, {
      seed: Number(seed),
      rounds: Infinity,
      roundMs,
      untilMs: monotonicMs() + Number(minutes) * 60_000,
      print: (line) => console.log(line),
    })
    for (const violation of outcome.violations.slice(0, 20)) console.log(violation)
    for (const file of [...outcome.left.locks, ...outcome.left.other]) console.log(`left: ${file}`)
    const result = reportOf(`chaos ${name} ${minutes} ${seed}`, outcome)
    const ok = report(result)
    record(name, Number(seed), outcome, result, ok, recorded === 'record')
  }
} finally {
  await store.stop()
}
