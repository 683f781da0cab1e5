/** Locks in one file beside proper-lockfile: one after another, and four processes taking turns. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { lock, type LockOptions } from 'proper-lockfile'
import { connect } from '../src/index.ts'
import { monotonicMs } from '../src/core/environment.ts'
import type { Hold, TurnsOrder } from './children/turns.ts'
import { interleave, median, percentile, report } from './report.ts'

const sequentialRounds = 15
const pairsPerRound = 300
const turnRounds = 5
const turnsMs = 1500
const processes = 4
const holdMs = 1

/** Ways to try again that proper-lockfile can be told, from keen to patient; its own default begins at a second. */
const retrySettings = {
  every1Ms: { forever: true, factor: 1, minTimeout: 1, maxTimeout: 1 },
  every3Ms: { forever: true, factor: 1, minTimeout: 3, maxTimeout: 3 },
  every10Ms: { forever: true, factor: 1, minTimeout: 10, maxTimeout: 10 },
  from1To100Ms: { forever: true, factor: 2, minTimeout: 1, maxTimeout: 100 },
  itsDefault: { forever: true },
} satisfies Record<string, LockOptions['retries']>
type RetrySetting = keyof typeof retrySettings

// ---- one after another

async function microsecondsPerPair(pair: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  for (let count = 0; count < pairsPerRound; count += 1) await pair()
  return ((performance.now() - startedAt) * 1000) / pairsPerRound
}

async function compareSequential(directory: string): Promise<{ leasehold: number; peer: number; ratio: number }> {
  const file = path.join(directory, 'sequential')
  await writeFile(file, '')
  const locks = await connect(`sqlite:${path.join(directory, 'locks.sqlite')}`)
  const contenders = {
    leasehold: () => microsecondsPerPair(async () => (await locks.acquire('sequential')).release()),
    // Resolving links is its default and costs time; the better of both counts.
    peer: () => microsecondsPerPair(async () => (await lock(file, { realpath: false }))()),
    peerByDefault: () => microsecondsPerPair(async () => (await lock(file))()),
  }
  await interleave(2, contenders)
  const { medians, ratio } = await interleave(sequentialRounds, contenders)
  await locks.close()
  const best = medians.peer <= medians.peerByDefault ? 'peer' : 'peerByDefault'
  return { leasehold: medians.leasehold, peer: medians[best], ratio: ratio(best, 'leasehold') }
}

// ---- taking turns

interface Turns {
  readonly handOversMs: readonly number[]
  readonly overlaps: number
  readonly perProcess: readonly number[]
}

const run = promisify(execFile)
const child = fileURLToPath(new URL('children/turns.js', import.meta.url))

/** Four processes, one lock: every hold of all of them, in order. */
async function takeTurns(directory: string, retries?: LockOptions['retries']): Promise<Turns> {
  const startAt = monotonicMs() + 600
  const order: TurnsOrder = { directory, retries, startAt, endAt: startAt + turnsMs, holdMs }
  const outputs = await Promise.all(
    Array.from({ length: processes }, () =>
      run(process.execPath, [child, JSON.stringify(order)], { timeout: 20_000, killSignal: 'SIGKILL' }),
    ),
  )
  const logs = outputs.map(({ stdout }) => JSON.parse(stdout) as Hold[])
  const holds = logs.flat().toSorted((one, other) => one[0] - other[0])
  const gaps = holds.slice(1).map((hold, index) => hold[0] - (holds[index] as Hold)[1])
  return {
    handOversMs: gaps,
    overlaps: gaps.filter((gap) => gap < 0).length,
    perProcess: logs.map((log) => log.length),
  }
}

function fairness(turns: readonly Turns[]): number {
  const sums = Array.from({ length: processes }, (_, index) =>
    turns.reduce((sum, { perProcess }) => sum + (perProcess[index] as number), 0),
  )
  return Math.min(...sums) / Math.max(...sums)
}

async function compareTurns(directory: string) {
  await writeFile(path.join(directory, 'turns'), '')
  const settings = Object.keys(retrySettings) as RetrySetting[]
  const runs = {
    leasehold: [] as Turns[],
    ...Object.fromEntries(settings.map((name) => [name, [] as Turns[]])),
  } as Record<'leasehold' | RetrySetting, Turns[]>
  const contender = (name: 'leasehold' | RetrySetting) => async (): Promise<number> => {
    const turns = await takeTurns(directory, name === 'leasehold' ? undefined : retrySettings[name])
    runs[name].push(turns)
    return percentile(turns.handOversMs, 0.5)
  }
  const names = Object.keys(runs) as (keyof typeof runs)[]
  const contenders = Object.fromEntries(names.map((name) => [name, contender(name)])) as Record<
    keyof typeof runs,
    () => Promise<number>
  >
  const comparison = await interleave(turnRounds, contenders)
  const best = settings.reduce((one, other) => (comparison.medians[other] < comparison.medians[one] ? other : one))
  return { comparison, best, runs }
}

const directory = await mkdtemp(path.join(tmpdir(), 'leasehold-embedded-'))
try {
  const sequential = await compareSequential(directory)
  const { comparison, best, runs } = await compareTurns(directory)
  const ours = runs.leasehold
  const handOvers = ours.flatMap((turns) => turns.handOversMs)

  report({
    name: 'embedded',
    figures: {
      sequentialPairMicroseconds: sequential.leasehold,
      properLockfilePairMicroseconds: sequential.peer,
      processes,
      holdMs,
      handOverP50Ms: comparison.medians.leasehold,
      handOverP99Ms: percentile(handOvers, 0.99),
      properLockfileBestSetting: best,
      properLockfileHandOverP50Ms: comparison.medians[best],
      properLockfileHandOverP99Ms: percentile(
        runs[best].flatMap((turns) => turns.handOversMs),
        0.99,
      ),
      properLockfileFairness: fairness(runs[best]),
      turns: handOvers.length + ours.length,
      fairnessOfWorstRun: Math.min(...ours.map((turns) => fairness([turns]))),
    },
    bars: {
      sequentialSpeedToProperLockfile: { actual: sequential.ratio, atLeast: 5 },
      handOverToProperLockfile: { actual: comparison.ratio('leasehold', best), atMost: 0.6 },
      fairness: { actual: median(ours.map((turns) => fairness([turns]))), atLeast: 0.9 },
      overlaps: { actual: ours.reduce((sum, turns) => sum + turns.overlaps, 0), atMost: 0 },
    },
  })
} finally {
  await rm(directory, { recursive: true, force: true })
}
