import { formatDuration } from '../../core/time/duration.ts'
import { commonOptions, durationOption, numberOption, type ParsedArguments } from '../arguments.ts'
import type { Command } from '../command.ts'
import { interruptibly } from '../interruption.ts'
import { shortTime } from '../output/short-time.ts'
import { chooseStore, describeStore, storeHelp } from '../stores/store.ts'
import { Table } from '../output/table.ts'
import { printableJson } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'
import { randomBytes } from 'node:crypto'
import type { Locks } from '../../index.ts'

const defaults = { forMs: 2000, locks: 100, clients: 4 } as const
const most = { locks: 10_000, clients: 100 } as const

const help = `Usage: leasehold bench [options]

Measures a store from this machine, with locks that nobody else uses: one lock after the other, many at once,
renewals, and clients that take turns, each with its own connection. Leaves nothing behind. Other users of the store
share its capacity with the measurement.

Options:
  --for DURATION      how long each of the four measurements takes; default ${formatDuration(defaults.forMs)}
  --locks N           how many locks at once; default ${defaults.locks}
  --clients N         how many clients take turns at one lock; default ${defaults.clients}
  --json              one JSON document a measurement: measure, text, perSecond, medianMs, p99Ms
${storeHelp}

Examples:
  leasehold bench
  leasehold bench --store redis://127.0.0.1:6379 --locks 1000
  leasehold bench --store postgres://127.0.0.1/app --for 10s --clients 20 --json
`

/** `leasehold bench` */
export const benchCommand: Command = {
  name: 'bench',
  summary: 'measure how fast a store is from here',
  help,
  options: {
    ...commonOptions,
    for: { type: 'string' },
    locks: { type: 'string' },
    clients: { type: 'string' },
    json: { type: 'boolean' },
  },
  async run(given, { variables, connect, messages, print, printLines, look }) {
    if (given.positionals.length > 0) throw new UsageError('bench takes no NAME.')
    const load = readLoad(given)
    const { url, namespace } = chooseStore(given, variables)
    if (url.startsWith('github:'))
      throw new UsageError('bench would write hundreds of comments to a repository. doctor tries a store with a few.')
    const isJson = given.flags.has('json')
    return interruptibly(messages, 'nothing is left behind', async (interruption) => {
      if (!isJson) messages.say(`measuring ${describeStore(url)}, ${shortTime(load.forMs * 4)} in all`)
      const measured: Measurement[] = []
      const open = () => interruption.during(connect(url, { namespace }))
      for await (const measurement of measure(open, load, interruption.signal)) {
        measured.push(measurement)
        if (isJson) print(`${printableJson(measurement)}\n`)
        else messages.status(`${measurement.text}: done`)
      }
      messages.clearStatus()
      if (!isJson) printLines(new Table(['', 'a second', 'median', '99 %'], look.columns).lines(measured.map(rowOf)))
      return 0
    })
  },
}

function readLoad(given: ParsedArguments): Load {
  return {
    forMs: durationOption(given, 'for', { from: 1, to: 86_400_000 }) ?? defaults.forMs,
    locksAtOnce: countOption(given, 'locks', 1),
    clients: countOption(given, 'clients', 2),
  }
}

function countOption(given: ParsedArguments, name: keyof typeof most, least: number): number {
  return numberOption(given, name, { from: least, to: most[name] }) ?? defaults[name]
}

function rowOf({ text, perSecond, medianMs, p99Ms }: Measurement): string[] {
  const rounded = perSecond < 100 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString('en')
  return [text, rounded, shortTime(medianMs), shortTime(p99Ms)]
}

/** The load of a benchmark. */
export interface Load {
  /** How long each measurement takes. */
  readonly forMs: number
  readonly locksAtOnce: number
  /** How many clients take turns at one lock, each with its own connection. */
  readonly clients: number
}

/** The result of one measurement: throughput and latency. */
export interface Measurement {
  readonly measure: 'one' | 'many' | 'renewal' | 'turns'
  /** What was measured, in words. */
  readonly text: string
  readonly perSecond: number
  readonly medianMs: number
  readonly p99Ms: number
}

/** The duration of each repetition, and of all together. */
interface Times {
  readonly tookMs: readonly number[]
  readonly overallMs: number
}

/** The share of the time that is not counted: code is being compiled, connections are being opened. */
const warmUpShare = 0.2
/** The leases are not renewed during a measurement, so the ttl is long. */
const ttl = '1m'

/** How much longer to wait if no hand-over has been seen yet. */
const handOverWithinMs = 30_000

/** Runs the four measurements one after the other, with locks that nobody else uses. Leaves nothing behind. */
export async function* measure(
  open: () => Promise<Locks>,
  load: Load,
  signal: AbortSignal,
): AsyncIterable<Measurement> {
  const opened: Locks[] = []
  const enter = async (): Promise<Locks> => {
    const locks = await open()
    opened.push(locks)
    return locks
  }
  const name = `bench/${randomBytes(8).toString('hex')}`
  try {
    const locks = await enter()
    yield await singleLock(locks, name, load, signal)
    yield await manyLocks(locks, name, load, signal)
    yield await renewals(locks, name, load, signal)
    while (opened.length < load.clients) await enter()
    yield await turns(opened, name, load, signal)
  } finally {
    // Closing a client releases its leases.
    await Promise.all(opened.map((locks) => locks.close()))
  }
}

async function singleLock(locks: Locks, name: string, { forMs }: Load, signal: AbortSignal): Promise<Measurement> {
  const times = await again(forMs, signal, () => takeAndLetGo(locks, name, signal))
  return { measure: 'one', text: 'one lock, taken and let go', ...summary(times, 1) }
}

async function manyLocks(locks: Locks, name: string, load: Load, signal: AbortSignal): Promise<Measurement> {
  const names = namesFor(name, load)
  const times = await again(load.forMs, signal, () =>
    Promise.all(names.map((each) => takeAndLetGo(locks, each, signal))),
  )
  return { measure: 'many', text: `${names.length} locks at once, taken and let go`, ...summary(times, names.length) }
}

async function renewals(locks: Locks, name: string, load: Load, signal: AbortSignal): Promise<Measurement> {
  const names = namesFor(name, load)
  const leases = await Promise.all(names.map((each) => locks.acquire(each, { ttl, heartbeat: 'manual', signal })))
  const times = await again(load.forMs, signal, () => Promise.all(leases.map((lease) => lease.renew())))
  await Promise.all(leases.map((lease) => lease.release()))
  return { measure: 'renewal', text: `${names.length} leases at once, renewed`, ...summary(times, names.length) }
}

/** Measures the hand-over of one lock that all clients keep asking for: from a release to the next grant. */
async function turns(clients: readonly Locks[], name: string, load: Load, signal: AbortSignal): Promise<Measurement> {
  const handOversMs: number[] = []
  let last: { readonly client: Locks; readonly freedAt: number } | undefined
  let count = 0
  const startedAt = performance.now()
  const countedFrom = startedAt + load.forMs * warmUpShare
  const isOver = (): boolean => {
    const tookMs = performance.now() - startedAt
    return tookMs >= load.forMs && (handOversMs.length > 0 || tookMs >= load.forMs + handOverWithinMs)
  }
  const takeTurns = async (client: Locks): Promise<void> => {
    do {
      const lease = await client.acquire(name, { ttl, signal })
      const takenAt = performance.now()
      if (takenAt >= countedFrom) {
        count += 1
        // A client that takes the lock again right after its own release is no hand-over.
        if (last !== undefined && last.client !== client) handOversMs.push(takenAt - last.freedAt)
      }
      last = { client, freedAt: performance.now() }
      await lease.release()
    } while (!isOver())
  }
  await Promise.all(clients.map(takeTurns))
  const overallMs = performance.now() - countedFrom
  return {
    measure: 'turns',
    text: `${clients.length} clients at one lock: from a release to the next turn`,
    ...summary({ tookMs: handOversMs, overallMs }, 1),
    perSecond: (count * 1000) / overallMs,
  }
}

async function takeAndLetGo(locks: Locks, name: string, signal: AbortSignal): Promise<void> {
  const lease = await locks.acquire(name, { ttl, signal })
  await lease.release()
}

function namesFor(name: string, { locksAtOnce }: Load): string[] {
  return Array.from({ length: locksAtOnce }, (_, index) => `${name}/${index}`)
}

/** Repeats `work` until the time is up, once at least. */
async function again(forMs: number, signal: AbortSignal, work: () => Promise<unknown>): Promise<Times> {
  const startedAt = performance.now()
  while (performance.now() - startedAt < forMs * warmUpShare) await work()
  const tookMs: number[] = []
  const countedFrom = performance.now()
  do {
    signal.throwIfAborted()
    const beganAt = performance.now()
    await work()
    tookMs.push(performance.now() - beganAt)
  } while (performance.now() - startedAt < forMs)
  return { tookMs, overallMs: performance.now() - countedFrom }
}

function summary({ tookMs, overallMs }: Times, each: number): Pick<Measurement, 'perSecond' | 'medianMs' | 'p99Ms'> {
  const sorted = tookMs.toSorted((first, second) => first - second)
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  return { perSecond: (tookMs.length * each * 1000) / overallMs, medianMs: at(0.5), p99Ms: at(0.99) }
}
