import { redactedText } from '../../core/contract/redaction.ts'
import { version, type Locks } from '../../index.ts'
import { commonOptions } from '../arguments.ts'
import type { Command } from '../command.ts'
import { exitCodeOf, UsageError } from '../exit-codes.ts'
import { interruptibly } from '../interruption.ts'
import { chooseSharedStore, describeStore, isUnused, refuseMissing, storeHelp } from '../stores/store.ts'
import { printable, printableJson } from '../output/terminal-text.ts'
import { randomBytes } from 'node:crypto'
import { plainMessageOf } from '../../core/errors.ts'
import { shortTime } from '../output/short-time.ts'

const help = `Usage: leasehold doctor [options]

Tries whether the store does what locks need: opens it, takes and renews a lock of its own that nobody else uses, lets
it go to somebody who waits, and counts what is held. Says how long each took. Leaves no lock behind. A file that is
named and does not exist is not made.

Exits with 0 if all is well, also if something is worth a look, and else with the code of what is wrong, mostly 69.

Options:
  --json              one JSON document a finding: verdict (ok, warn or fail), text
${storeHelp}

Examples:
  leasehold doctor
  leasehold doctor --store redis://127.0.0.1:6379
  leasehold doctor --json
`

const marks: Record<Finding['verdict'], string> = { ok: 'ok   ', warn: 'WARN ', fail: 'FAIL ' }

export const doctor: Command = {
  name: 'doctor',
  summary: 'try whether a store does what locks need',
  help,
  options: { ...commonOptions, json: { type: 'boolean' } },
  async run(given, { variables, connect, messages, print }) {
    if (given.positionals.length > 0) throw new UsageError('doctor takes no NAME.')
    const { url, namespace } = chooseSharedStore(given, variables)
    if (!given.flags.has('json'))
      messages.say(`version ${version}, Node ${process.versions.node}, ${describeStore(url)}`)
    if (isUnused(url)) messages.say('nobody has used this store yet: its file is made now')
    return interruptibly(messages, 'no lock is left behind', async (interruption) => {
      const open = async () => {
        refuseMissing(url)
        return interruption.during(
          connect(url, { namespace, logger: { debug: () => {}, info: () => {}, warn: (text) => warnings.add(text) } }),
        )
      }
      const warnings = new Set<string>()
      let exitCode = 0
      for await (const { verdict, text: found, error } of examine(open, warnings, interruption.signal)) {
        const text = redactedText(found)
        print(
          given.flags.has('json') ? `${printableJson({ verdict, text })}\n` : `${marks[verdict]} ${printable(text)}\n`,
        )
        if (verdict === 'fail') exitCode = exitCodeOf(error)
      }
      return exitCode
    })
  },
}

/** What a look at a store has shown. `look`: it works, and somebody should have a look at it all the same. */
export interface Finding {
  readonly verdict: 'ok' | 'warn' | 'fail'
  readonly text: string
  /** Why it is wrong. */
  readonly error?: unknown
}

/** Pairs that are timed, at most, and for how long: on some stores each one costs. */
const pairsMax = 20
const pairsMaxMs = 2000
/** For locks that nobody renews. */
const ttl = '30s'
/** Who waits for longer than this after a release was not told of it. */
const servedSoonMs = 1000

/**
 * Tries on a store what locks need of it, with a lock of its own that nobody else uses, and tells what was found, one
 * thing after the other. Ends with the first that is wrong. Rejects when `signal` fires, and leaves no lock behind then
 * either. `warnings` has what the clients that were opened have been warned of.
 */
export async function* examine(
  open: () => Promise<Locks>,
  warnings: ReadonlySet<string>,
  signal: AbortSignal,
): AsyncIterable<Finding> {
  const opened: Locks[] = []
  // Lets go of whatever is held, and ends whatever waits.
  const close = (): Promise<unknown> => Promise.all(opened.map((locks) => locks.close()))
  signal.addEventListener('abort', () => void close().catch(() => {}), { once: true })
  const enter = async (): Promise<Locks> => {
    const locks = await open()
    opened.push(locks)
    return locks
  }
  const name = `doctor/${randomBytes(8).toString('hex')}`
  try {
    const startedAt = performance.now()
    const one = await enter()
    yield fine(`the store opens: ${since(startedAt)}`)
    for (const text of warnings) yield { verdict: 'warn', text }
    yield await pairs(one, name)
    yield await renewal(one, name)
    yield await handOver(one, await enter(), name)
    yield await inventory(one)
  } catch (error) {
    if (signal.aborted) throw error
    yield { verdict: 'fail', text: plainMessageOf(error), error }
  } finally {
    await close()
  }
}

/** Takes a lock again and again, as fast as one caller can. */
async function pairs(locks: Locks, name: string): Promise<Finding> {
  const tookMs: number[] = []
  let fence = 0
  const startedAt = performance.now()
  while (tookMs.length < pairsMax && performance.now() - startedAt < pairsMaxMs) {
    const beganAt = performance.now()
    const lease = await locks.acquire(name, { ttl, wait: '10s' })
    await lease.release()
    tookMs.push(performance.now() - beganAt)
    if (lease.fence <= fence) throw new Error(`fence ${lease.fence} came after ${fence}: fences must grow`)
    ;({ fence } = lease)
  }
  const median = tookMs.toSorted((one, other) => one - other)[tookMs.length >> 1] ?? 0
  const times = tookMs.length === 1 ? 'once' : `${tookMs.length} times`
  return fine(`a lock is taken and let go, ${times}: ${shortTime(median)} each by the median, and fences grow`)
}

async function renewal(locks: Locks, name: string): Promise<Finding> {
  await using lease = await locks.acquire(name, { ttl, wait: '10s', heartbeat: 'manual' })
  const startedAt = performance.now()
  await lease.renew()
  return fine(`a lease is renewed: ${since(startedAt)}`)
}

/** As between two processes: each has a connection of its own. */
async function handOver(one: Locks, other: Locks, name: string): Promise<Finding> {
  const lease = await one.acquire(name, { ttl, wait: '10s' })
  const inQueue = new Promise<'in queue'>((resolve) => other.on('contention', () => resolve('in queue')))
  const waiting = other.acquire(name, { ttl, wait: '1m' })
  // If the release fails there is nobody left to hear of this.
  waiting.catch(() => {})
  if ((await Promise.race([inQueue, waiting])) !== 'in queue')
    throw new Error('a lock was given away while it was held')
  const releasedAt = performance.now()
  await lease.release()
  await (await waiting).release()
  const tookMs = performance.now() - releasedAt
  const text = `who waits is served after a release: ${shortTime(tookMs)}`
  if (tookMs < servedSoonMs) return fine(text)
  return { verdict: 'warn', text: `${text}. It asks again now and then, as notifications do not reach it` }
}

async function inventory(locks: Locks): Promise<Finding> {
  const { totalLocks, activeLocks, staleLocks, truncated } = await locks.stats()
  const more = truncated ? ' at least' : ''
  const text = `in the namespace ${locks.namespace} there are${more} ${totalLocks} locks, ${activeLocks} held`
  if (staleLocks === 0) return fine(text)
  return { verdict: 'warn', text: `${text}, ${staleLocks} by a lease that is over: see leasehold ls` }
}

function fine(text: string): Finding {
  return { verdict: 'ok', text }
}

function since(startedAt: number): string {
  return shortTime(performance.now() - startedAt)
}
