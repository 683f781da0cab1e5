/**
 * Random inputs for a real `leasehold serve`, from a seed: `npm run prove -- fuzz [INPUTS] [SEED]`. Half of them are bytes on raw sockets,
 * made of calls that are cut, repeated and changed; the others are JSON and URLs whose parts are changed. No answer may be a 5xx, tell of a
 * failing store or take longer than 2 s, and the server may neither end nor grow.
 */
import { Agent, request as sendRequest } from 'node:http'
import { connect as connectSocket } from 'node:net'
import { report } from '../bench/report.ts'
import { AbusedServer } from '../test/support/abused-server.ts'
import { tokenOf } from '../test/support/tokens.ts'
import { FuzzedInputs } from './support/fuzzed-inputs.ts'

const [inputs = '200000', seed = '1'] = process.argv.slice(2)
if (!(Number(inputs) > 0) || !Number.isInteger(Number(seed))) {
  console.error('Usage: npm run prove -- fuzz [INPUTS] [SEED], e.g. npm run prove -- fuzz 100000 7')
  process.exit(2)
}

const atOnce = 48
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
  const generator = new FuzzedInputs(Number(seed), tokenOf('hostile'))
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce })
  const worker = async (): Promise<void> => {
    while (made < Number(inputs) && server.isRunning) {
      made += 1
      if (made % 50_000 === 0) console.log(`${made} inputs, ${Math.round(server.rssMb)} MB`)
      const sentAt = performance.now()
      const isRaw = made % 2 === 0
      const input = isRaw ? generator.bytes() : generator.call()
      const answer = typeof input === 'string' ? await raw(input) : await call(agent, input)
      const tookMs = performance.now() - sentAt
      slowestMs = Math.max(slowestMs, tookMs)
      if (tookMs > hangMs) hangs += 1
      note(answer, input)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  agent.destroy()
} finally {
  const isRunning = server.isRunning
  const peakMb = Math.round(server.rssPeakMb)
  await server.stop()
  for (const fault of faults.slice(0, 10)) console.log(fault)
  report({
    name: 'fuzz',
    figures: {
      inputs: made,
      seconds: Math.round((performance.now() - startedAt) / 1000),
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

function note(answer: string, input: unknown): void {
  const [, status = 'closed'] = /^HTTP\/1\.1 (\d+)/.exec(answer) ?? []
  statuses.set(status, (statuses.get(status) ?? 0) + 1)
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
    const end = setTimeout(() => socket.end(), 50)
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

function call(agent: Agent, { method, path, body }: ReturnType<FuzzedInputs['call']>): Promise<string> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${tokenOf('hostile')}`,
      ...(body !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    }
    const sent = sendRequest(server.url + path, { agent, method, headers }, (response) => {
      let text = `HTTP/1.1 ${response.statusCode}\n`
      response.setEncoding('utf8').on('data', (piece: string) => {
        if (text.length < 5000) text += piece
      })
      response.once('close', () => resolve(text))
    })
    sent.setTimeout(giveUpMs, () => sent.destroy())
    sent.once('error', () => resolve(''))
    sent.end(body)
  })
}
