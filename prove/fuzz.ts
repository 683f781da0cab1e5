/**
 * Random inputs for a real `leasehold serve`, from a seed: `npm run prove -- fuzz [INPUTS] [SEED]`. Half of them are bytes on raw sockets,
 * made of calls that are cut, repeated and changed; the others are calls in rows, with JSON and URLs whose parts are changed. No answer may be a 5xx, tell of a
 * failing store or take longer than 2 s, and the server may neither end nor grow.
 */
import { connect as connectSocket } from 'node:net'
import { report } from '../bench/report.ts'
import { AbusedServer } from '../test/support/abused-server.ts'
import { tokenOf } from '../test/support/tokens.ts'
import { FuzzedInputs } from './support/fuzzed-inputs.ts'
import { PipelinedCalls } from './support/pipelined-calls.ts'

const [inputs = '200000', seed = '1'] = process.argv.slice(2)
if (!(Number(inputs) > 0) || !Number.isInteger(Number(seed))) {
  console.error('Usage: npm run prove -- fuzz [INPUTS] [SEED], e.g. npm run prove -- fuzz 100000 7')
  process.exit(2)
}

/** Connections at once for bytes: most of them wait for an answer that does not come. */
const rawAtOnce = 64
const rowsAtOnce = 6
/** Calls of a row: as many as a server takes on one connection, or fewer. */
const rowLength = 12
/** How long bytes without an answer may be the beginning of something. */
const silenceMs = 10
const hangMs = 2000
/** The server is busy with others, too: an answer that began in time may need this long on a loaded machine. */
const giveUpMs = 10_000
const heapMb = 256
// Several tenants' claims fill the store soon: the quotas then refuse, which is an answer like any other.
const limits = 'headersWithinMs=500,bodyWithinMs=500,connectionsPerAddressMax=20000,claimsPerTokenMax=5000'

const statuses = new Map<string, number>()
const faults: string[] = []
let hangs = 0
let made = 0
let slowestMs = 0

const server = await AbusedServer.start(heapMb, ['--limits', limits])
const startedAt = performance.now()
try {
  const half = Math.ceil(Number(inputs) / 2)
  const rows = new PipelinedCalls(server.url, tokenOf('hostile'), giveUpMs)
  // Each kind has its own generator, so that its inputs do not depend on which answer comes first.
  const forBytes = new FuzzedInputs(Number(seed), tokenOf('hostile'))
  const forCalls = new FuzzedInputs(Number(seed) + 1_000_000, tokenOf('hostile'))
  let rawMade = 0
  let callsMade = 0
  const count = (): void => {
    made += 1
    if (made % 50_000 === 0) console.log(`${made} inputs, ${Math.round(server.rssMb)} MB`)
  }
  const sendBytes = async (): Promise<void> => {
    while (rawMade < half && server.isRunning) {
      rawMade += 1
      const input = forBytes.bytes()
      const sentAt = performance.now()
      note('raw', { answer: await raw(input), input, tookMs: performance.now() - sentAt })
      count()
    }
  }
  const sendCalls = async (): Promise<void> => {
    while (callsMade < Number(inputs) - half && server.isRunning) {
      const length = Math.min(rowLength, Number(inputs) - half - callsMade)
      callsMade += length
      const outcomes = await rows.row(Array.from({ length }, () => forCalls.call()))
      for (const { call, answer, tookMs } of outcomes) {
        note('call', { answer, input: call, tookMs })
        count()
      }
    }
  }
  await Promise.all([...Array.from({ length: rawAtOnce }, sendBytes), ...Array.from({ length: rowsAtOnce }, sendCalls)])
} finally {
  const isRunning = server.isRunning
  const peakMb = Math.round(server.rssPeakMb)
  if (!isRunning) console.log(`The server ended: ${server.log.slice(-3000)}`)
  await server.stop()
  for (const fault of faults.slice(0, 10)) console.log(fault)
  report({
    name: 'fuzz',
    figures: {
      inputs: made,
      seconds: Math.round((performance.now() - startedAt) / 1000),
      inputsPerSecond: Math.round((made * 1000) / (performance.now() - startedAt)),
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
      rssPeakMb: { actual: peakMb, atMost: heapMb + 350 },
    },
  })
}

interface Sent {
  readonly answer: string
  readonly input: unknown
  readonly tookMs: number
}

function note(kind: 'raw' | 'call', { answer, input, tookMs }: Sent): void {
  slowestMs = Math.max(slowestMs, tookMs)
  if (tookMs > hangMs) hangs += 1
  const [, status = 'closed'] = /^HTTP\/1\.1 (\d+)/.exec(answer) ?? []
  const name = `${kind} ${status}`
  statuses.set(name, (statuses.get(name) ?? 0) + 1)
  if (status < '500' || status === 'closed') {
    if (!/"reason":"(?:store|server)"/.test(answer)) return
  }
  faults.push(`${answer.slice(0, 300)}\n  to ${JSON.stringify(input).slice(0, 1000)}`)
}

/** Sends bytes as they are. If no answer comes, our side is closed, and the server has to close, too. */
function raw(bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connectSocket(Number(new URL(server.url).port), '127.0.0.1')
    let answer = ''
    const end = setTimeout(() => socket.end(), silenceMs)
    const giveUp = setTimeout(() => socket.destroy(), giveUpMs)
    socket.on('error', () => {})
    socket.on('data', (piece) => {
      answer += piece.toString('latin1')
      socket.destroy()
    })
    socket.once('close', () => {
      clearTimeout(end)
      clearTimeout(giveUp)
      resolve(answer)
    })
    socket.write(Buffer.from(bytes, 'latin1'))
  })
}
