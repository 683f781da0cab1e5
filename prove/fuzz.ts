/**
 * Random inputs for the server, from a seed: `npm run prove -- fuzz [INPUTS] [SEED] [SOCKET INPUTS]`. Half of them are bytes, made of calls
 * that are cut, repeated and changed; the others are calls in rows, with JSON and URLs whose parts are changed. The last of them go to a real
 * `leasehold serve` over sockets (default: a hundredth), the others to a server in this process, over connections that are not the system's. No
 * answer may be a 5xx, tell of a failing store or take longer than 2 s, and neither server may end or grow. SIGTERM goes on to the last part.
 * Runs with `node --max-old-space-size=256`, as the server over sockets does: with more, Node collects so late that it looks like growth.
 */
import { readFileSync } from 'node:fs'
import { connect as connectSocket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { report } from '../bench/report.ts'
import { AbusedServer } from '../test/support/abused-server.ts'
import { tokenOf } from '../test/support/tokens.ts'
import { FuzzedInputs } from './support/fuzzed-inputs.ts'
import { InProcessServer } from './support/in-process-server.ts'
import { PipelinedCalls } from './support/pipelined-calls.ts'
import { sendBytes } from './support/raw-bytes.ts'

const [inputs = '1000000', seed = '1', onSockets = String(Math.ceil(Number(inputs) / 100))] = process.argv.slice(2)
if (!(Number(inputs) > 0) || !Number.isInteger(Number(seed)) || !(Number(onSockets) >= 0)) {
  console.error('Usage: npm run prove -- fuzz [INPUTS] [SEED] [SOCKET INPUTS], e.g. npm run prove -- fuzz 100000 7')
  process.exit(2)
}

/** Connections at once for bytes: most of them wait for an answer that does not come. */
const rawAtOnce = 64
const rowsAtOnce = 6
/** Calls of a row: as many as a server takes on one connection, or fewer. */
const rowLength = 12
/** How long bytes without an answer may be the beginning of something: over sockets, and in turns of the event loop in this process. */
const silenceMs = 10
const silentTurns = 12
const hangMs = 2000
/** Where others have the processor, an answer that is not lost may need this long. */
const giveUpMs = 30_000
const heapMb = 256
// Several tenants' claims fill the store soon: the quotas then refuse, which is an answer like any other.
const limits = {
  headersWithinMs: 500,
  bodyWithinMs: 500,
  connectionsPerAddressMax: 20_000,
  claimsPerTokenMax: 5000,
}

const statuses = new Map<string, number>()
const faults: string[] = []
let hangs = 0
let made = 0
let slowestMs = 0

const readEveryMs = 20
let waited = { ms: 0, readAt: -Infinity }

/** How long this process has been ready to run while the system ran others: no fault of a server in it. Zero where no system tells. */
function waitedMs(): number {
  if (performance.now() - waited.readAt < readEveryMs) return waited.ms
  waited = { ms: readWaitedMs(), readAt: performance.now() }
  return waited.ms
}

function readWaitedMs(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

/** How inputs reach a server. */
interface Way {
  readonly connect: () => Duplex
  readonly silence: () => Promise<void>
  readonly isRunning: () => boolean
  /** How long inputs have waited for the processor because others had it. */
  readonly waitedMs: () => number
  readonly rssMb: () => number
}

const sayEveryMs = 30_000

function minutesText(seconds: number): string {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`
}

async function play(count: number, firstSeed: number, way: Way): Promise<void> {
  const startedAt = performance.now()
  const half = Math.ceil(count / 2)
  const rows = new PipelinedCalls(way.connect, tokenOf('hostile'), giveUpMs)
  // Each kind has its own generator, so that its inputs do not depend on which answer comes first.
  const forBytes = new FuzzedInputs(firstSeed, tokenOf('hostile'))
  const forCalls = new FuzzedInputs(firstSeed + 1_000_000, tokenOf('hostile'))
  let rawMade = 0
  let callsMade = 0
  const madeBefore = made
  let saidAt = startedAt
  const counted = (): void => {
    made += 1
    const now = performance.now()
    if (now - saidAt < sayEveryMs) return
    saidAt = now
    const perSecond = ((made - madeBefore) * 1000) / (now - startedAt)
    const left = minutesText((count - (made - madeBefore)) / perSecond)
    const state = `${Math.round(way.rssMb())} MB, ${faults.length} faults, ${hangs} hangs`
    console.log(`${made} inputs, ${Math.round(perSecond)} a second, ${left} left for these ${count}; ${state}`)
  }
  const playBytes = async (): Promise<void> => {
    while (rawMade < half && way.isRunning()) {
      rawMade += 1
      const input = forBytes.bytes()
      const since = stopwatch(way)
      const answer = await sendBytes(way.connect(), input, { pause: way.silence, giveUpMs })
      note('raw', { answer, input, tookMs: since() })
      counted()
    }
  }
  const playCalls = async (): Promise<void> => {
    while (callsMade < count - half && way.isRunning()) {
      const length = Math.min(rowLength, count - half - callsMade)
      callsMade += length
      const since = stopwatch(way)
      const outcomes = await rows.row(Array.from({ length }, () => forCalls.call()))
      const rowMs = since()
      for (const { call, answer, tookMs } of outcomes) {
        note('call', { answer, input: call, tookMs: Math.min(tookMs, rowMs) })
        counted()
      }
    }
  }
  await Promise.all([...Array.from({ length: rawAtOnce }, playBytes), ...Array.from({ length: rowsAtOnce }, playCalls)])
}

/** Gives how long something took, without what the processor spent on others. */
function stopwatch(way: Way): () => number {
  const startedAt = performance.now()
  const waitedBefore = way.waitedMs()
  return () => {
    const tookMs = performance.now() - startedAt
    return tookMs <= hangMs ? tookMs : tookMs - (way.waitedMs() - waitedBefore)
  }
}

interface Sent {
  readonly answer: string
  readonly input: unknown
  readonly tookMs: number
}

function note(kind: 'raw' | 'call', { answer, input, tookMs }: Sent): void {
  slowestMs = Math.max(slowestMs, tookMs)
  if (tookMs > hangMs) {
    hangs += 1
    if (hangs <= 10) console.log(`${Math.round(tookMs)} ms for ${kind} ${JSON.stringify(input).slice(0, 1000)}`)
  }
  const [, status = 'closed'] = /^HTTP\/1\.1 (\d+)/.exec(answer) ?? []
  const name = `${kind} ${status}`
  statuses.set(name, (statuses.get(name) ?? 0) + 1)
  if (status < '500' || status === 'closed') {
    if (!/"reason":"(?:store|server)"/.test(answer)) return
  }
  const fault = `${answer.slice(0, 500)}\n  to ${JSON.stringify(input).slice(0, 1000)}`
  faults.push(fault)
  if (faults.length <= 10) console.log(fault)
}

function ownRssMb(): number {
  return process.memoryUsage.rss() / 1_048_576
}

async function silentFor(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await nextTurn()
}

// Stacks are slow to make for so many refusals.
Error.stackTraceLimit = 0
let isStopped = false
process.once('SIGTERM', () => (isStopped = true))
const startedAt = performance.now()
const tokens = (['hostile', 'victim'] as const).map((name) => {
  return { name, token: tokenOf(name), namespaces: [name], rights: ['lock', 'read'] as const }
})
// This process is the only proxy that is trusted, so that the headers of proxies are read, too.
const server = await InProcessServer.start({
  store: 'memory:',
  port: 0,
  tokens,
  limits,
  trustedProxies: ['127.0.0.1'],
  logger: console,
})
await play(Number(inputs) - Number(onSockets), Number(seed), {
  connect: server.connect,
  silence: () => silentFor(silentTurns),
  isRunning: () => !isStopped,
  waitedMs,
  rssMb: ownRssMb,
})
await server.close()
const seconds = (performance.now() - startedAt) / 1000
const inProcess = made
const ownPeakMb = process.resourceUsage().maxRSS / 1024

const limitsText = Object.entries(limits).map(([name, value]) => `${name}=${value}`)
const serving = await AbusedServer.start(heapMb, ['--limits', limitsText.join(',')])
try {
  await play(Number(onSockets), Number(seed) + 2_000_000, {
    connect: () => {
      const socket = connectSocket(Number(new URL(serving.url).port), '127.0.0.1')
      socket.setNoDelay(true)
      socket.on('error', () => {})
      return socket
    },
    silence: () => pause(silenceMs),
    isRunning: () => serving.isRunning,
    waitedMs: () => 0,
    rssMb: () => serving.rssMb,
  })
} finally {
  const { isRunning, rssPeakMb } = serving
  if (!isRunning) console.log(`The server ended: ${serving.log.slice(-3000)}`)
  await serving.stop()
  report({
    name: 'fuzz',
    figures: {
      inputs: made,
      'inputs over sockets': made - inProcess,
      seconds: Math.round((performance.now() - startedAt) / 1000),
      inputsPerSecondInProcess: Math.round(inProcess / seconds),
      slowestMs: Math.round(slowestMs),
      ...Object.fromEntries(
        [...statuses]
          .toSorted(([first], [second]) => (first < second ? -1 : 1))
          .map(([status, count]) => [`answers ${status}`, count]),
      ),
    },
    bars: {
      serverErrors: { actual: faults.length, atMost: 0 },
      'slower than 2 s': { actual: hangs, atMost: 0 },
      'server runs': { actual: isRunning ? 1 : 0, atLeast: 1 },
      'rssPeakMb over sockets': { actual: Math.round(rssPeakMb), atMost: heapMb + 350 },
      // The generator and its inputs are in there.
      'rssPeakMb in this process': { actual: Math.round(ownPeakMb), atMost: heapMb + 350 },
    },
  })
}
