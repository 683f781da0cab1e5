/**
 * Forked by `chaos`, with a URL, a log, a name, a ttl and the longest pause between two turns: ten workers use locks of every
 * kind, write down what they did, and rest when told to.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connect, LeaseholdError } from '../../src/index.ts'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { deferred } from '../../test/support/deferred.ts'
import type { ResourceAnswer } from '../chaos/resources.ts'
import { ClientLog } from './chaos/client-log.ts'
import { turnsOf, type CallResource, type Turn } from './chaos/turns.ts'

/** What a client is told. Go on: take turns again. */
export type ClientOrder = { readonly type: 'rest' | 'go on' | 'end' } | ResourceAnswer

/** What failed for a client since it was told to go on, and when its last worker was done. */
export interface Rested {
  readonly type: 'rested'
  readonly at: number
  /** How often calls failed, by code. */
  readonly failures: Readonly<Record<string, number>>
  readonly heapBytes: number
}

/** What a client had left after it closed its locks. */
export interface Ended {
  readonly type: 'ended'
  readonly timers: number
  readonly sockets: number
}

/** Something that must never happen, in words. */
export interface Complaint {
  readonly type: 'complaint'
  readonly message: string
}

const [url = '', logFile = '', name = '', ttlMs = '2000', paceMs = '5', manyAtOnce = '50'] = process.argv.slice(2)
/** The longest pause between two attempts: by default 5 s, which a waiter may spend on a store that has long come back. */
const retryMaxMs = 500
/** After close, the system tells within this time of what has ended. */
const settleMs = 2000

const send = (message: unknown): void => void process.send?.(message)
const complain = (message: string): void => send({ type: 'complaint', message: `${name}: ${message}` })
process.on('uncaughtException', (error) => complain(`uncaught: ${error.stack ?? String(error)}`))
process.on('unhandledRejection', (error) => complain(`unhandled: ${String(error)}`))
// A client ends with its parent.
process.once('disconnect', () => process.exit())

const before = resourcesInUse()
const log = new ClientLog(logFile, name)
const calls = new Map<number, (answer: ResourceAnswer) => void>()
let callCount = 0

const callResource: CallResource = async (call) => {
  const id = (callCount += 1)
  const answer = await new Promise<ResourceAnswer>((resolve) => {
    calls.set(id, resolve)
    send({ type: 'resource', id, ...call })
  })
  return answer.value
}

const locks = await connectPatiently()
const turns = turnsOf({ locks, log, ttlMs: Number(ttlMs), manyAtOnce: Number(manyAtOnce), callResource })

const crew: { state: 'working' | 'resting' | 'ended' } = { state: 'working' }
let resumed = deferred()
let idle = 0
let isMeasured = false

process.on('message', (order: ClientOrder) => {
  if (order.type === 'answer') {
    calls.get(order.id)?.(order)
    calls.delete(order.id)
    return
  }
  crew.state = order.type === 'rest' ? 'resting' : order.type === 'end' ? 'ended' : 'working'
  if (crew.state === 'resting') {
    isMeasured = false
    tellIfIdle()
  } else {
    resumed.resolve()
    resumed = deferred()
  }
})

const working = Promise.all(turns.map(work))
send({ type: 'ready' })
await working
await locks.close()
send({ type: 'ended', ...(await leftovers()) } satisfies Ended)
process.disconnect()

async function work(turn: Turn): Promise<void> {
  while (crew.state !== 'ended') {
    await pause(Math.random() * Number(paceMs))
    if (crew.state === 'working') await taken(turn)
    if (crew.state === 'resting') await rest()
  }
}

/** Takes a turn. A worker that is to rest goes on until it has had the one that it waits for. */
async function taken(turn: Turn): Promise<void> {
  while (!(await succeeds(turn))) {
    if (crew.state === 'ended') return
    // A store that refuses at once is not asked in a tight loop.
    await pause(5 + Math.random() * 20)
  }
}

async function succeeds(turn: Turn): Promise<boolean> {
  try {
    return await turn()
  } catch (error) {
    if (!(error instanceof LeaseholdError)) throw error
    log.fail(error)
    if (['INVALID', 'UNSUPPORTED', 'SCOPE_MISMATCH', 'CLOSED'].includes(error.code)) complain(error.message)
    return false
  }
}

async function rest(): Promise<void> {
  idle += 1
  tellIfIdle()
  await resumed.promise
  idle -= 1
}

function tellIfIdle(): void {
  if (idle < turns.length || isMeasured) return
  isMeasured = true
  const at = monotonicMs()
  // Run with --expose-gc.
  globalThis.gc?.()
  const rested: Rested = { type: 'rested', at, ...log.take(), heapBytes: process.memoryUsage().heapUsed }
  send(rested)
}

/** What there is more of than before the locks were opened. */
async function leftovers(): Promise<{ timers: number; sockets: number }> {
  const until = monotonicMs() + settleMs
  for (;;) {
    const after = resourcesInUse()
    const left = { timers: after.timers - before.timers, sockets: after.sockets - before.sockets }
    if ((left.timers <= 0 && left.sockets <= 0) || monotonicMs() > until) return left
    // Not by a timer: that would count.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** A client that starts while its store is away tries again, as a supervisor would have it do. */
async function connectPatiently(): Promise<Awaited<ReturnType<typeof connect>>> {
  for (;;) {
    try {
      return await connect(url, { defaults: { retry: { max: retryMaxMs } } })
    } catch (error) {
      if (!(error instanceof LeaseholdError) || error.code !== 'UNAVAILABLE') throw error
      await pause(50)
    }
  }
}

function resourcesInUse(): { timers: number; sockets: number } {
  const kinds = process.getActiveResourcesInfo()
  return {
    timers: kinds.filter((kind) => kind === 'Timeout').length,
    sockets: kinds.filter((kind) => /TCP|TLS|FSEvent|FSREQ|Worker/.test(kind)).length,
  }
}
