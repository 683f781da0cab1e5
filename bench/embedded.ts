/** Locks in one file beside proper-lockfile: one after another, and four processes taking turns. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { lock, type LockOptions } from 'proper-lockfile'
import { connect } from '../src/index.ts'
import { monotonicMs } from '../src/core/machine/machine-clock.ts'
import type { Hold, TurnsOrder, TurnsStart } from './children/turns.ts'
import { interleave, median, percentile, report } from './report.ts'
import { nextMessage, startChild } from './support/child.ts'

const sequentialRounds = 15
const pairsPerRound = 500
const turnRounds = 4
const turnsMs = 2000
/** Before the first round, without holds: at a few hundred turns a second, code would go on being compiled for ten seconds. */
const warmUpMs = 4000
const processes = 4
const holdMs = 1

/** Retry options of proper-lockfile, from short to long intervals; its own default, which begins at a second, is never its best. */
const retrySettings = {
  every1Ms: { forever: true, factor: 1, minTimeout: 1, maxTimeout: 1 },
  every3Ms: { forever: true, factor: 1, minTimeout: 3, maxTimeout: 3 },
  every10Ms: { forever: true, factor: 1, minTimeout: 10, maxTimeout: 10 },
  from1To100Ms: { forever: true, factor: 2, minTimeout: 1, maxTimeout: 100 },
} satisfies Record<string, LockOptions['retries']>
type RetrySetting = keyof typeof retrySettings
type Contenders = 'leasehold' | 'bareQueue' | RetrySetting

// ---- one after another

/** Flushes the disk writes of one contender before the next is timed. */
async function settleDisk(directory: string): Promise<void> {
  const file = await open(path.join(directory, 'settled'), 'w')
  await file.sync()
  await file.close()
}

async function microsecondsPerPair(directory: string, pair: () => Promise<unknown>): Promise<number> {
  await settleDisk(directory)
  const startedAt = performance.now()
  for (let count = 0; count < pairsPerRound; count += 1) await pair()
  return ((performance.now() - startedAt) * 1000) / pairsPerRound
}

async function compareSequential(directory: string) {
  const file = path.join(directory, 'sequential')
  await writeFile(file, '')
  const locks = await connect(`sqlite:${path.join(directory, 'locks.sqlite')}`)
  const contenders = {
    leasehold: () => microsecondsPerPair(directory, async () => (await locks.acquire('sequential')).release()),
    properLockfile: () => microsecondsPerPair(directory, async () => (await lock(file))()),
    // Its fastest setting: links are not resolved.
    properLockfileNoRealpath: () =>
      microsecondsPerPair(directory, async () => (await lock(file, { realpath: false }))()),
  }
  await interleave(2, contenders)
  const comparison = await interleave(sequentialRounds, contenders)
  await locks.close()
  return comparison
}

// ---- taking turns

interface Turns {
  /** Hand-overs to another process: taking one's own lock again is not counted. */
  readonly handOversMs: readonly number[]
  /** Holds that followed one of the same process. */
  readonly keptByOne: number
  readonly overlaps: number
  readonly perProcess: readonly number[]
}

/** Four processes that take turns at one lock on request. */
class Team {
  readonly #children: readonly ChildProcess[]

  private constructor(order: TurnsOrder) {
    this.#children = Array.from({ length: processes }, () => startChild('turns', JSON.stringify(order)))
  }

  static async start(order: TurnsOrder): Promise<Team> {
    const team = new Team(order)
    await Promise.all(team.#children.map(nextMessage))
    await team.takeTurns(warmUpMs, 0)
    return team
  }

  /** Has all processes take turns, and returns their holds in order. */
  async takeTurns(forMs: number, eachMs: number): Promise<Turns> {
    const startAt = monotonicMs() + 20
    const start: TurnsStart = { startAt, endAt: startAt + forMs, holdMs: eachMs }
    for (const child of this.#children) child.send(start)
    const logs = (await Promise.all(this.#children.map(nextMessage))) as Hold[][]
    return merge(logs, startAt, startAt + forMs)
  }

  async end(): Promise<void> {
    const ends = this.#children.filter(({ exitCode }) => exitCode === null).map((child) => once(child, 'exit'))
    for (const child of this.#children) if (child.connected) child.send('end')
    await Promise.all(ends)
  }
}

/** Merges the logs of all processes, and keeps the holds between `from` and `to`. */
function merge(logs: readonly Hold[][], from: number, to: number): Turns {
  const all = logs.flatMap((log, index) => log.map(([acquiredAt, releasedAt]) => ({ acquiredAt, releasedAt, index })))
  const holds = all.toSorted((a, b) => a.acquiredAt - b.acquiredAt)
  const handOversMs: number[] = []
  let keptByOne = 0
  let overlaps = 0
  let before = holds[0]
  for (const hold of holds.slice(1)) {
    const gapMs = hold.acquiredAt - (before?.releasedAt ?? 0)
    if (gapMs < 0) overlaps += 1
    if (hold.acquiredAt >= from && hold.acquiredAt < to) {
      if (hold.index === before?.index) keptByOne += 1
      else handOversMs.push(gapMs)
    }
    before = hold
  }
  const perProcess = logs.map((log) => log.filter(([at]) => at >= from && at < to).length)
  return { handOversMs, keptByOne, overlaps, perProcess }
}

/** Fewest turns divided by most: 1 if all processes had as many. */
function fairness({ perProcess }: Turns): number {
  return Math.min(...perProcess) / Math.max(...perProcess)
}

async function compareTurns(directory: string) {
  await writeFile(path.join(directory, 'turns'), '')
  const settings = Object.keys(retrySettings) as RetrySetting[]
  const names: readonly Contenders[] = ['leasehold', 'bareQueue', ...settings]
  const runs = Object.fromEntries(names.map((name) => [name, [] as Turns[]])) as Record<Contenders, Turns[]>
  const teams: Team[] = []
  try {
    const contenders = {} as Record<Contenders, () => Promise<number>>
    for (const name of names) {
      const isOurs = name === 'leasehold' || name === 'bareQueue'
      const team = await Team.start(
        isOurs
          ? { directory, contender: name }
          : { directory, contender: 'properLockfile', retries: retrySettings[name] },
      )
      teams.push(team)
      contenders[name] = async () => {
        const turns = await team.takeTurns(turnsMs, holdMs)
        runs[name].push(turns)
        return percentile(turns.handOversMs, 0.5)
      }
    }
    const comparison = await interleave(turnRounds, contenders)
    const best = settings.reduce((a, b) => (comparison.medians[b] < comparison.medians[a] ? b : a))
    return { comparison, best, runs }
  } finally {
    await Promise.all(teams.map((team) => team.end()))
  }
}

const directory = await mkdtemp(path.join(tmpdir(), 'leasehold-embedded-'))
try {
  const sequential = await compareSequential(directory)
  const { comparison, best, runs } = await compareTurns(directory)
  const ours = runs.leasehold
  const theirs = runs[best]
  const handOvers = ours.flatMap((turns) => turns.handOversMs)
  const theirHandOvers = theirs.flatMap((turns) => turns.handOversMs)

  report({
    name: 'embedded',
    figures: {
      sequentialPairMicroseconds: sequential.medians.leasehold,
      properLockfilePairMicroseconds: sequential.medians.properLockfile,
      properLockfileNoRealpathPairMicroseconds: sequential.medians.properLockfileNoRealpath,
      processes,
      holdMs,
      handOvers: handOvers.length,
      handOverP50Ms: comparison.medians.leasehold,
      handOverP99Ms: percentile(handOvers, 0.99),
      fairnessOfWorstRun: Math.min(...ours.map((turns) => fairness(turns))),
      properLockfileBestSetting: best,
      properLockfileHandOvers: theirHandOvers.length,
      properLockfileKeptByOne: theirs.reduce((sum, turns) => sum + turns.keptByOne, 0),
      properLockfileHandOverP50Ms: comparison.medians[best],
      properLockfileHandOverP99Ms: percentile(theirHandOvers, 0.99),
      // What is possible at all with a SQLite file and an inbox file.
      bareQueueHandOverP50Ms: comparison.medians.bareQueue,
      bareQueueToProperLockfile: comparison.ratio('bareQueue', best),
      properLockfileFairness: median(theirs.map((turns) => fairness(turns))),
    },
    bars: {
      sequentialSpeedToProperLockfile: { actual: sequential.ratio('properLockfile', 'leasehold'), atLeast: 5 },
      handOverToProperLockfile: { actual: comparison.ratio('leasehold', best), atMost: 0.6 },
      fairness: { actual: median(ours.map((turns) => fairness(turns))), atLeast: 0.9 },
      overlaps: { actual: ours.reduce((sum, turns) => sum + turns.overlaps, 0), atMost: 0 },
    },
  })
} finally {
  await rm(directory, { recursive: true, force: true })
}
