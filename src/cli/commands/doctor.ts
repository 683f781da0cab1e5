import { redactedText } from '../../core/contract/redaction.ts'
import { version, type Locks } from '../../index.ts'
import { commonOptions } from '../arguments.ts'
import type { Command } from '../command.ts'
import { exitCodeOf, UsageError } from '../exit-codes.ts'
import { interruptibly } from '../interruption.ts'
import { chooseSharedStore, describeStore, isUnused, refuseMissing, storeHelp } from '../stores/store.ts'
import type { Style } from '../output/style.ts'
import { printableJson } from '../output/terminal-text.ts'
import { randomBytes } from 'node:crypto'
import { plainMessageOf } from '../../core/errors.ts'
import { shortTime } from '../output/short-time.ts'

const help = `Usage: leasehold doctor [options]

Checks whether the store does what locks need: opens it, takes and renews a lock that nobody else uses, hands it over
to a waiting client, and counts what is held. Says how long each step took. Leaves no lock behind. Does not create a
file that --store names and that does not exist.

Exits with 0 if every check passes, with or without warnings, else with the exit code of the failure, usually 69.

Options:
  --json              one JSON document a finding: verdict (ok, warn or fail), text
${storeHelp}

Examples:
  leasehold doctor
  leasehold doctor --store redis://127.0.0.1:6379
  leasehold doctor --json
`

const marks: Record<Finding['verdict'], { readonly word: string; readonly symbol: string; readonly style: Style }> = {
  ok: { word: 'ok   ', symbol: '✓ ok  ', style: 'green' },
  warn: { word: 'WARN ', symbol: '! WARN', style: 'yellow' },
  fail: { word: 'FAIL ', symbol: '✗ FAIL', style: 'red' },
}

/** `leasehold doctor` */
export const doctorCommand: Command = {
  name: 'doctor',
  summary: 'check whether a store does what locks need',
  help,
  options: { ...commonOptions, json: { type: 'boolean' } },
  async run(given, { variables, connect, messages, print, printText, look }) {
    if (given.positionals.length > 0) throw new UsageError('doctor takes no NAME.')
    const { url, namespace } = chooseSharedStore(given, variables)
    if (!given.flags.has('json'))
      messages.say(`version ${version}, Node ${process.versions.node}, ${describeStore(url)}`)
    if (isUnused(url)) messages.say('nobody has used this store yet: creating its file')
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
        const { word, symbol, style } = marks[verdict]
        if (given.flags.has('json')) print(`${printableJson({ verdict, text })}\n`)
        else printText([[{ text: look.symbols ? symbol : word, style }, ` ${text}`]])
        if (verdict === 'fail') exitCode = exitCodeOf(error)
      }
      return exitCode
    })
  },
}

/** The result of one check. `warn`: the store works, but an operator should look into it. */
export interface Finding {
  readonly verdict: 'ok' | 'warn' | 'fail'
  readonly text: string
  /** The error, if the check failed. */
  readonly error?: unknown
}

/** How many acquire-release pairs to time, and for how long at most: on some stores each one is expensive. */
const pairsMax = 20
const pairsMaxMs = 2000
/** Longer than any check takes, since most leases here are not renewed. */
const ttl = '30s'
/** A waiter served later than this after a release was polling: no notification reached it. */
const servedSoonMs = 1000

/**
 * Runs the checks one after the other, with a lock that nobody else uses, and ends with the first failure. Rejects when
 * `signal` fires. Leaves no lock behind in either case. `warnings` collects the log warnings of the opened clients.
 */
export async function* examine(
  open: () => Promise<Locks>,
  warnings: ReadonlySet<string>,
  signal: AbortSignal,
): AsyncIterable<Finding> {
  const opened: Locks[] = []
  // Closing a client releases its leases and ends its acquisitions.
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
    const locks = await enter()
    yield ok(`the store opens: ${since(startedAt)}`)
    for (const text of warnings) yield { verdict: 'warn', text }
    yield await pairs(locks, name)
    yield await renewal(locks, name)
    yield await handOver(locks, await enter(), name)
    yield await inventory(locks)
  } catch (error) {
    if (signal.aborted) throw error
    yield { verdict: 'fail', text: plainMessageOf(error), error }
  } finally {
    await close()
  }
}

/** Times acquire-release pairs of one lock, and checks that its fences grow. */
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
  const median = tookMs.toSorted((first, second) => first - second)[tookMs.length >> 1] ?? 0
  const times = tookMs.length === 1 ? 'once' : `${tookMs.length} times`
  return ok(`a lock is taken and let go, ${times}: ${shortTime(median)} each (median), and fences grow`)
}

async function renewal(locks: Locks, name: string): Promise<Finding> {
  await using lease = await locks.acquire(name, { ttl, wait: '10s', heartbeat: 'manual' })
  const startedAt = performance.now()
  await lease.renew()
  return ok(`a lease is renewed: ${since(startedAt)}`)
}

/** Times a hand-over between two clients with separate connections, as between two processes. */
async function handOver(holder: Locks, waiter: Locks, name: string): Promise<Finding> {
  const lease = await holder.acquire(name, { ttl, wait: '10s' })
  const inQueue = new Promise<'in queue'>((resolve) => waiter.on('contention', () => resolve('in queue')))
  const waiting = waiter.acquire(name, { ttl, wait: '1m' })
  // If the release fails, nobody awaits this promise any more.
  waiting.catch(() => {})
  if ((await Promise.race([inQueue, waiting])) !== 'in queue')
    throw new Error('a lock was given away while it was held')
  const releasedAt = performance.now()
  await lease.release()
  await (await waiting).release()
  const tookMs = performance.now() - releasedAt
  const text = `a waiter is served after a release: ${shortTime(tookMs)}`
  if (tookMs < servedSoonMs) return ok(text)
  return { verdict: 'warn', text: `${text}. It was polling: notifications do not reach it` }
}

async function inventory(locks: Locks): Promise<Finding> {
  const { totalLocks, activeLocks, staleLocks, truncated, storeError } = await locks.stats()
  if (storeError !== undefined) throw storeError
  const more = truncated ? ' at least' : ''
  const text = `in the namespace ${locks.namespace} there are${more} ${totalLocks} locks, ${activeLocks} held`
  if (staleLocks === 0) return ok(text)
  return { verdict: 'warn', text: `${text}, ${staleLocks} with an expired lease: see leasehold ls` }
}

function ok(text: string): Finding {
  return { verdict: 'ok', text }
}

function since(startedAt: number): string {
  return shortTime(performance.now() - startedAt)
}
