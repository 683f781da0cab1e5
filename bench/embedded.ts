/** Locks in one file beside proper-lockfile: one after another, and four processes taking turns. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { lock, type LockOptions } from 'proper-lockfile'
import { connect } from '../src/index.ts'
import { monotonicMs } from '../src/core/machine/machine-clock.ts'
import type { Turn, TurnsOrder, TurnsStart } from './children/turns.ts'
import { interleave, median, percentile, report, type Bar, type Peer } from './report.ts'
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
const retryTitles: Record<RetrySetting, string> = {
  every1Ms: 'every 1 ms',
  every3Ms: 'every 3 ms',
  every10Ms: 'every 10 ms',
  from1To100Ms: 'from 1 to 100 ms',
}
const turnsTitle = 'SQLite, 4 processes take turns'
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

/** What one round of one contender came to. */
interface Round {
  /** Hand-overs to another process: taking one's own lock again is not counted. */
  readonly handOversMs: readonly number[]
  /** Holds that followed one of the same process. */
  readonly keptByOne: number
  readonly overlaps: number
  readonly perProcess: readonly number[]
  /** Turns of all processes together. */
  readonly turnsPerSecond: number
  /** From the call of acquire until it resolved, the process's own lock taken again included. */
  readonly waitP99Ms: number
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
  async takeTurns(forMs: number, eachMs: number): Promise<Round> {
    const startAt = monotonicMs() + 20
    const start: TurnsStart = { startAt, endAt: startAt + forMs, holdMs: eachMs }
    for (const child of this.#children) child.send(start)
    const logs = (await Promise.all(this.#children.map(nextMessage))) as Turn[][]
    return merge(logs, startAt, startAt + forMs)
  }

  async end(): Promise<void> {
    const ends = this.#children.filter(({ exitCode }) => exitCode === null).map((child) => once(child, 'exit'))
    for (const child of this.#children) if (child.connected) child.send('end')
    await Promise.all(ends)
  }
}

/** Merges the logs of all processes, and keeps the turns between `from` and `to`. */
function merge(logs: readonly Turn[][], from: number, to: number): Round {
  const isWithin = (at: number): boolean => at >= from && at < to
  const all = logs.flatMap((log, index) => log.map((turn) => ({ turn, index })))
  const turns = all.toSorted((a, b) => a.turn[1] - b.turn[1])
  const handOversMs: number[] = []
  const waitsMs: number[] = []
  let keptByOne = 0
  let overlaps = 0
  let before: { readonly turn: Turn; readonly index: number } | undefined
  for (const current of turns) {
    const [calledAt, acquiredAt] = current.turn
    // By its call: a process that waits at the end gets its turn when the others have stopped.
    if (isWithin(calledAt)) waitsMs.push(acquiredAt - calledAt)
    if (before !== undefined) {
      const gapMs = acquiredAt - before.turn[2]
      if (gapMs < 0) overlaps += 1
      if (isWithin(acquiredAt)) {
        if (current.index === before.index) keptByOne += 1
        else handOversMs.push(gapMs)
      }
    }
    before = current
  }
  const perProcess = logs.map((log) => log.filter(([, acquiredAt]) => isWithin(acquiredAt)).length)
  const turnsPerSecond = (1000 * perProcess.reduce((sum, count) => sum + count, 0)) / (to - from)
  return { handOversMs, keptByOne, overlaps, perProcess, turnsPerSecond, waitP99Ms: percentile(waitsMs, 0.99) }
}

/** Fewest turns divided by most: 1 if all processes had as many. */
function fairness({ perProcess }: Round): number {
  return Math.min(...perProcess) / Math.max(...perProcess)
}

/** The median over the rounds of one figure of ours, divided by that of a contender in the same round. */
function ratioOf(ours: readonly Round[], theirs: readonly Round[], figure: (round: Round) => number): number {
  const theirFigures = theirs.map(figure)
  return median(ours.map((round, index) => figure(round) / (theirFigures[index] ?? Number.NaN)))
}

/** What a contender did, under names that begin with its own. */
function figuresOf(name: string, rounds: readonly Round[]): Record<string, number> {
  return {
    [`${name}TurnsPerSecond`]: median(rounds.map((round) => round.turnsPerSecond)),
    [`${name}WaitP99Ms`]: median(rounds.map((round) => round.waitP99Ms)),
    [`${name}HandOverP50Ms`]: median(rounds.map((round) => percentile(round.handOversMs, 0.5))),
    [`${name}Fairness`]: median(rounds.map((round) => fairness(round))),
    [`${name}KeptByOneShare`]: median(
      rounds.map(({ keptByOne, handOversMs }) => keptByOne / (keptByOne + handOversMs.length)),
    ),
  }
}

/** Ours against one setting of proper-lockfile: more turns in all, and shorter waits. */
function barsAgainst(setting: RetrySetting, ours: readonly Round[], theirs: readonly Round[]): Record<string, Bar> {
  const peer = (figure: (round: Round) => number, unit: string): Peer => ({
    name: `proper-lockfile, retry ${retryTitles[setting]}`,
    kind: 'library',
    ours: median(ours.map(figure)),
    theirs: median(theirs.map(figure)),
    unit,
  })
  const turnsOf = (round: Round): number => round.turnsPerSecond
  const waitOf = (round: Round): number => round.waitP99Ms
  return {
    [`turnsPerSecondTo_${setting}`]: {
      title: `${turnsTitle}: turns a second`,
      peer: peer(turnsOf, 'turns/s'),
      actual: ratioOf(ours, theirs, turnsOf),
      atLeast: 2,
    },
    [`waitP99To_${setting}`]: {
      title: `${turnsTitle}: p99 wait of a turn`,
      peer: peer(waitOf, 'ms'),
      actual: ratioOf(ours, theirs, waitOf),
      atMost: 0.5,
    },
  }
}

async function compareTurns(directory: string) {
  await writeFile(path.join(directory, 'turns'), '')
  const settings = Object.keys(retrySettings) as RetrySetting[]
  const names: readonly Contenders[] = ['leasehold', 'bareQueue', ...settings]
  const runs = Object.fromEntries(names.map((name) => [name, [] as Round[]])) as Record<Contenders, Round[]>
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
        const round = await team.takeTurns(turnsMs, holdMs)
        runs[name].push(round)
        return percentile(round.handOversMs, 0.5)
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
  const settings = Object.keys(retrySettings) as RetrySetting[]

  report({
    name: 'embedded',
    figures: {
      sequentialPairMicroseconds: sequential.medians.leasehold,
      properLockfilePairMicroseconds: sequential.medians.properLockfile,
      properLockfileNoRealpathPairMicroseconds: sequential.medians.properLockfileNoRealpath,
      processes,
      holdMs,
      handOvers: ours.reduce((sum, { handOversMs }) => sum + handOversMs.length, 0),
      handOverP99Ms: percentile(
        ours.flatMap(({ handOversMs }) => handOversMs),
        0.99,
      ),
      fairnessOfWorstRun: Math.min(...ours.map((round) => fairness(round))),
      properLockfileBestSetting: best,
      // What is possible at all with a SQLite file and an inbox file.
      bareQueueToProperLockfile: comparison.ratio('bareQueue', best),
      ...Object.assign({}, ...Object.entries(runs).map(([name, rounds]) => figuresOf(name, rounds))),
    },
    bars: {
      sequentialSpeedToProperLockfile: {
        title: 'SQLite, one lock at a time: speed of a pair',
        peer: {
          name: 'proper-lockfile',
          kind: 'library',
          ours: sequential.medians.leasehold,
          theirs: sequential.medians.properLockfile,
          unit: 'µs',
        },
        actual: sequential.ratio('properLockfile', 'leasehold'),
        atLeast: 7,
      },
      handOverToProperLockfile: {
        title: `${turnsTitle}: median hand-over`,
        peer: {
          name: 'proper-lockfile at its best',
          kind: 'library',
          ours: comparison.medians.leasehold,
          theirs: comparison.medians[best],
          unit: 'ms',
        },
        actual: comparison.ratio('leasehold', best),
        atMost: 1,
      },
      ...Object.assign({}, ...settings.map((setting) => barsAgainst(setting, ours, runs[setting]))),
      fairness: {
        title: `${turnsTitle}: fewest turns of a process to most`,
        actual: median(ours.map((round) => fairness(round))),
        atLeast: 0.9,
      },
      overlaps: {
        title: `${turnsTitle}: holds that overlap`,
        actual: ours.reduce((sum, { overlaps }) => sum + overlaps, 0),
        atMost: 0,
      },
    },
    ratios: {
      handOverToBareQueue: {
        title: `${turnsTitle}: median hand-over`,
        peer: {
          name: 'a bare queue in SQLite',
          kind: 'hand-written',
          ours: comparison.medians.leasehold,
          theirs: comparison.medians.bareQueue,
          unit: 'ms',
        },
        actual: comparison.ratio('leasehold', 'bareQueue'),
        better: 'less',
      },
    },
  })
} finally {
  await rm(directory, { recursive: true, force: true })
}
