/**
 * Hostile tenants in processes of their own against a real `leasehold serve`, one attack after the other, for the given seconds each
 * (default 10), while another tenant works. Names select attacks. Then 10,000 idle sockets and 5,000 waiting clients.
 */
import type { ChildProcess } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { median, report, type Bar } from '../bench/report.ts'
import {
  AbusedServer,
  attacks,
  spawnWithDescriptors,
  workAsVictim,
  type Attack,
} from '../test/support/abused-server.ts'
import { tokenOf } from '../test/support/tokens.ts'

const [seconds = '10', ...names] = process.argv.slice(2)
if (!(Number(seconds) > 0) || names.some((name) => name !== 'crowds' && !attacks.includes(name as Attack))) {
  console.error(
    `Usage: npm run prove -- abuse [SECONDS] [ATTACK…], e.g. npm run prove -- abuse 5 flood\n${attacks.join('\n')}\ncrowds`,
  )
  process.exit(2)
}

const heapMb = 256
/** What the process takes beside its heap: code, buffers, answers on their way. */
const rssMaxMb = heapMb + 350
const runMs = Number(seconds) * 1000
/** Between two pairs of the other tenant: short, so that there are thousands of them. */
const pauseMs = 1
/** As docs/server.md recommends where tenants are strangers. */
const options = ['--token-rate', '500/1000']
const chosen = names.length === 0 ? attacks : attacks.filter((attack) => names.includes(attack))

const figures: Record<string, number> = {}
const bars: Record<string, Bar> = {}
const p99 = (latencies: readonly number[]): number =>
  latencies.toSorted((first, second) => first - second)[Math.floor(latencies.length * 0.99)] ?? Number.NaN
const rounded = (value: number): number => Math.round(value * 100) / 100

/** Quiet and hostile phases alternate on one server, so that what else the machine does meets both alike. */
const rounds = 5

for (const attack of chosen) {
  const server = await AbusedServer.start(heapMb, options)
  try {
    const until = (ms: number): (() => boolean) => {
      const end = performance.now() + ms
      return () => performance.now() < end
    }
    await workAsVictim(server.url, until(1000))
    const quietLatencies: number[] = []
    const latencies: number[] = []
    const failed: string[] = []
    let succeeded = 0
    let done = ''
    for (let round = 0; round < rounds; round += 1) {
      const quiet = await workAsVictim(server.url, until(runMs / rounds), pauseMs)
      for (const latency of quiet.latenciesMs) quietLatencies.push(latency)
      const tenant = await server.attack(attack)
      const work = await workAsVictim(server.url, until(runMs / rounds), pauseMs)
      await tenant.stop()
      ;({ done } = tenant)
      for (const latency of work.latenciesMs) latencies.push(latency)
      for (const failure of work.failed) failed.push(failure)
      succeeded += work.succeeded
    }
    const attacked = { succeeded, failed, latenciesMs: latencies }
    const tried = attacked.succeeded + attacked.failed.length
    const quietP99 = p99(quietLatencies)
    const name = attack.replaceAll(' ', '-')
    figures[`${name} pairs`] = tried
    figures[`${name} medianMs`] = rounded(median(attacked.latenciesMs))
    figures[`${name} quietP99Ms`] = rounded(quietP99)
    figures[`${name} p99Ms`] = rounded(p99(attacked.latenciesMs))
    bars[`${name} success`] = { actual: attacked.succeeded / tried, atLeast: 0.999 }
    bars[`${name} p99 by quiet p99`] = { actual: rounded(p99(attacked.latenciesMs) / quietP99), atMost: 3 }
    bars[`${name} rssPeakMb`] = { actual: server.isRunning ? Math.round(server.rssPeakMb) : Infinity, atMost: rssMaxMb }
    console.log(
      `${attack}: ${attacked.succeeded} of ${tried} pairs, p99 ${rounded(p99(attacked.latenciesMs))} ms (quiet ${rounded(quietP99)} ms), peak ${Math.round(server.rssPeakMb)} MB; the tenant did ${done}`,
    )
    for (const failure of new Set(attacked.failed)) console.log(`  ${failure}`)
  } finally {
    await server.stop()
  }
}

if (names.length === 0 || names.includes('crowds')) {
  for (const [crowd, size] of [
    ['idle sockets', 10_000],
    ['waiting clients', 5000],
  ] as const) {
    const limits = `connectionsPerAddressMax=${size + 100},streamsPerTokenMax=${size},callsPerTokenMax=1000`
    const server = await AbusedServer.start(1024, ['--limits', limits])
    let child: ChildProcess | undefined
    try {
      // The code is compiled, and the heap has its first size.
      await workAsVictim(server.url, (pairs) => pairs < 300)
      // Its connection is closed by then.
      await pause(500)
      const before = server.rssMb
      const descriptorsBefore = server.descriptors
      // Only now: what came before would be missing from the difference.
      const started = spawnWithDescriptors([
        '.build/prove/children/crowd.js',
        crowd,
        String(size),
        server.url,
        tokenOf('hostile'),
      ])
      child = started
      await new Promise<void>((resolve, reject) => {
        started.once('exit', () => reject(new Error('The crowd ended.')))
        started.stderr?.pipe(process.stderr)
        started.stdout?.setEncoding('utf8').on('data', () => resolve())
      })
      await pause(2000)
      // As the server sees it, not the crowd.
      const held = server.descriptors - descriptorsBefore
      const kbEach = ((server.rssMb - before) * 1024) / held
      figures[`${crowd} rssMb before`] = Math.round(before)
      figures[`${crowd} rssMb with them`] = Math.round(server.rssMb)
      bars[`${crowd} held`] = { actual: held, atLeast: size }
      bars[`${crowd} KB each`] = { actual: rounded(kbEach), atMost: 20 }
      const { failed } = await workAsVictim(server.url, (pairs) => pairs < 100)
      bars[`${crowd} failures of another tenant`] = { actual: failed.length, atMost: 0 }
    } finally {
      child?.kill('SIGKILL')
      await server.stop()
    }
  }
}

report({ name: 'abuse', figures, bars })
