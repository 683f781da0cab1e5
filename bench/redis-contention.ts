/** Fifty callers in five processes take turns on one Redis lock: hand-over, commands, fairness; beside redis-semaphore. */
import { monotonicMs } from '../src/core/machine/machine-clock.ts'
import { checkHistory } from '../src/testing/history.ts'
import type { HistoryEvent } from '../src/testing/history/event.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import type { StartSign, TurnsOrder } from './children/redis-turns.ts'
import { interleave, median, percentile, report } from './report.ts'
import { nextMessage, startChild } from './support/child.ts'

const processes = 5
const callersPerProcess = 10
const holdMs = 1
const turnsMs = 4000
const rounds = 3
/** Retry intervals of redis-semaphore: Leasehold is compared with the best of them. */
const retrySettingsMs = [1, 3, 10]

interface Turns {
  readonly acquisitions: number
  /** Holds that followed a hold of the same caller: these are no hand-overs. */
  readonly keptByOne: number
  readonly handOverP50Ms: number
  readonly handOverP99Ms: number
  readonly commandsPerAcquisition: number
  /** Fewest turns of a caller divided by the most. */
  readonly fairness: number
  readonly overlaps: number
}

const server = await RedisServer.start()

async function takeTurns(retryMs: number | undefined): Promise<Turns> {
  await server.cli('FLUSHALL')
  await server.cli('CONFIG', 'RESETSTAT')
  const children = Array.from({ length: processes }, (_, index) => {
    const order: TurnsOrder = {
      port: server.port,
      process: index,
      callers: callersPerProcess,
      ...(retryMs !== undefined && { retryMs }),
      turnsMs,
      holdMs,
    }
    return startChild('redis-turns', JSON.stringify(order))
  })
  await Promise.all(children.map(nextMessage))
  const startAt = monotonicMs() + 50
  for (const child of children) child.send({ startAt } satisfies StartSign)
  const answers = (await Promise.all(children.map(nextMessage))) as HistoryEvent[][]
  const history = answers.flat()
  return judge(history, await commandsSent(), retryMs === undefined, startAt + turnsMs)
}

function judge(history: HistoryEvent[], commands: number, hasFences: boolean, endAt: number): Turns {
  const events = history.toSorted((a, b) => a.at - b.at)
  const handOvers: number[] = []
  const perCaller = new Map<string, number>()
  let acquisitions = 0
  let keptByOne = 0
  let released: { readonly at: number; readonly caller: string } | undefined
  for (const event of events) {
    if (event.type === 'granted') {
      const caller = callerOf(event.attempt)
      acquisitions += 1
      // Once callers begin to leave, turns are no longer equal.
      if (event.at < endAt) count(perCaller, caller)
      if (released?.caller === caller) keptByOne += 1
      else if (released !== undefined) handOvers.push(event.at - released.at)
      released = undefined
    }
    if (event.type === 'release') released = { at: event.at, caller: callerOf(event.attempt) }
  }
  const { violations } = checkHistory(events, { fair: false })
  return {
    acquisitions,
    keptByOne,
    handOverP50Ms: percentile(handOvers, 0.5),
    handOverP99Ms: percentile(handOvers, 0.99),
    commandsPerAcquisition: commands / acquisitions,
    fairness: Math.min(...perCaller.values()) / Math.max(...perCaller.values()),
    overlaps: violations.filter(({ kind }) => hasFences || kind === 'overlap').length,
  }
}

function callerOf(attempt: string): string {
  return attempt.split('/')[0] ?? ''
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

/** Commands sent by clients, without those inside scripts and those that set up connections. */
async function commandsSent(): Promise<number> {
  const statistics = await server.cli('INFO', 'commandstats')
  const calls = (command: string): number =>
    Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(statistics)?.[1] ?? 0)
  const scripts = calls('evalsha') + calls('eval')
  // Leasehold's SETs all happen inside its script; redis-semaphore claims by a plain SET.
  return statistics.includes('cmdstat_publish') ? scripts : scripts + calls('set')
}

const runs: Record<string, Turns[]> = {}
const contender = (name: string, retryMs?: number) => async (): Promise<number> => {
  const turns = await takeTurns(retryMs)
  runs[name] = [...(runs[name] ?? []), turns]
  return turns.handOverP50Ms
}
const peers = Object.fromEntries(retrySettingsMs.map((ms) => [`retry${ms}`, contender(`retry${ms}`, ms)]))
const { medians, ratio } = await interleave<string>(rounds, { leasehold: contender('leasehold'), ...peers })
await server.stop()

const best = Object.keys(peers).reduce((a, b) => ((medians[a] ?? Infinity) <= (medians[b] ?? Infinity) ? a : b))
const ours = runs['leasehold'] ?? []
const theirs = runs[best] ?? []
const middle = (turns: readonly Turns[], figure: keyof Turns): number => median(turns.map((turn) => turn[figure]))

const title = 'Redis, 50 waiters in 5 processes'
const peer = { name: 'redis-semaphore at its best', kind: 'library' } as const
report({
  name: 'redis-contention',
  figures: {
    callers: processes * callersPerProcess,
    acquisitions: ours.reduce((sum, { acquisitions }) => sum + acquisitions, 0),
    handOverP50Ms: middle(ours, 'handOverP50Ms'),
    handOverP99Ms: middle(ours, 'handOverP99Ms'),
    redisSemaphoreBest: best,
    redisSemaphoreAcquisitions: theirs.reduce((sum, { acquisitions }) => sum + acquisitions, 0),
    redisSemaphoreKeptByOne: theirs.reduce((sum, { keptByOne }) => sum + keptByOne, 0),
    redisSemaphoreHandOverP50Ms: middle(theirs, 'handOverP50Ms'),
    redisSemaphoreHandOverP99Ms: middle(theirs, 'handOverP99Ms'),
    redisSemaphoreCommandsPerAcquisition: middle(theirs, 'commandsPerAcquisition'),
    redisSemaphoreFairness: middle(theirs, 'fairness'),
  },
  bars: {
    commandsPerAcquisition: {
      title: `${title}: commands an acquisition`,
      actual: middle(ours, 'commandsPerAcquisition'),
      atMost: 2.1,
    },
    handOverToRedisSemaphore: {
      title: `${title}: median hand-over`,
      peer: { ...peer, ours: middle(ours, 'handOverP50Ms'), theirs: middle(theirs, 'handOverP50Ms'), unit: 'ms' },
      actual: ratio('leasehold', best),
      atMost: 1,
    },
    fairness: {
      title: `${title}: fewest turns of a waiter to most`,
      actual: middle(ours, 'fairness'),
      atLeast: 0.9,
    },
    violations: {
      title: `${title}: violations of the history`,
      actual: ours.reduce((sum, { overlaps }) => sum + overlaps, 0),
      atMost: 0,
    },
  },
  ratios: {
    commandsToRedisSemaphore: {
      title: `${title}: commands an acquisition`,
      peer: {
        ...peer,
        ours: middle(ours, 'commandsPerAcquisition'),
        theirs: middle(theirs, 'commandsPerAcquisition'),
        unit: 'commands',
      },
      actual: middle(ours, 'commandsPerAcquisition') / middle(theirs, 'commandsPerAcquisition'),
      better: 'less',
    },
  },
})
