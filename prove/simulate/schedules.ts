import { createHash } from 'node:crypto'
import type { openLocks } from '../../src/api/create-locks.ts'
import { simulate, type HistoryEvent } from '../../src/testing/index.ts'
import { tour, type TourOptions } from '../../test/unit/client/tour.ts'
import { compositions } from '../../test/unit/composition/compositions.ts'
import { tour as quorumTour } from '../../test/unit/quorum/tour.ts'
import { clientTour } from './client-tours.ts'

/** What is left of a schedule that is made smaller. */
export interface Reduction {
  readonly processes?: number
  readonly workers?: number
  readonly ms?: number
  /** The faults that still happen, by their numbers in the story; absent: all. */
  readonly faults?: ReadonlySet<number>
}

/** What came of a schedule. */
export interface Played {
  /** What was wrong, in words. */
  readonly wrong: readonly string[]
  readonly holds: number
  /** How many faults there were in the story, left out or not. */
  readonly faults: number
  /** The same for the same story. */
  readonly hash: string
}

/** One story of clients, made from a seed: 20 simulated seconds or more. */
export interface Schedule {
  readonly name: string
  /** How large it is before it is reduced. */
  readonly size: { readonly processes: number; readonly workers: number; readonly ms: number }
  play(reduction?: Reduction): Promise<Played>
}

/** The real way to open locks, or one with a planted fault. */
export type OpenLocks = typeof openLocks

const simulatedMs = 20_000
const quorumMs = 20_000
const composed = Object.entries(compositions)
/** Of so many schedules one is of a quorum, two of other compositions, the rest of the client alone. */
const cycle = 16

/** The schedule of a seed. Most are small, so that there can be many; one in eight is as large as `prove -- client` plays. */
export function scheduleOf(seed: number, open?: OpenLocks): Schedule {
  const place = seed % cycle
  if (place === 0 && open === undefined) return quorumSchedule(seed)
  if (place <= 2 && open === undefined) return composedSchedule(seed)
  return clientSchedule(seed, open)
}

function clientSchedule(seed: number, open: OpenLocks | undefined): Schedule {
  const small = { processes: 2 + (seed % 2), workers: 1 + (Math.floor(seed / 2) % 2) }
  const wanted = clientTour(Math.floor(seed / cycle) * 13 + (seed % cycle))
  const options: TourOptions = seed % 8 === 3 || wanted.weather === 'calm' ? wanted : { ...wanted, ...small }
  const { processes = 3, workers = 3 } = options
  const { weather, about = 'everything', store = 'store', threads = false } = options
  return {
    name: `client, ${weather}, ${about}, ${store}${threads ? ', threads' : ''}`,
    size: { processes, workers, ms: simulatedMs },
    async play(reduction = {}) {
      const story = new Story(reduction)
      const { summary, violations, stuck, left, orphans, overtrusted, timers, traces } = await tour({
        ...options,
        ...sizesOf(reduction),
        seed,
        ...(open !== undefined && { openLocks: open }),
        strikes: story.strikes,
        onEvents: story.note,
      })
      const wrong = [
        ...violations.map(({ message }) => message),
        ...stuck.map((worker) => `${worker} had no turn`),
        ...[...left, ...orphans, ...overtrusted, ...traces].map(String),
        ...(timers > 0 ? [`${timers} timers were left`] : []),
      ]
      return story.played(wrong, summary.holds)
    },
  }
}

function composedSchedule(seed: number): Schedule {
  const [name, options] = composed[Math.floor(seed / cycle) % composed.length] ?? []
  if (name === undefined || options === undefined) throw new Error('There are no compositions.')
  const { seeds: _seeds, ...rest } = options
  return {
    name,
    size: { processes: rest.processes ?? 3, workers: rest.workers ?? 3, ms: simulatedMs },
    async play(reduction = {}) {
      const story = new Story(reduction)
      const report = await simulate({ ...rest, ...sizesOf(reduction), seed, strikes: story.strikes })
      story.note(report.events)
      const wrong = [
        ...report.violations.map(({ message }) => message),
        ...report.stuck.map((worker) => `${worker} had no turn`),
        ...report.left.map((resource) => `${resource} was left`),
        ...(report.timers > 0 ? [`${report.timers} timers were left`] : []),
      ]
      return story.played(wrong, report.summary.holds)
    },
  }
}

function quorumSchedule(seed: number): Schedule {
  const clients = 2 + (seed % 32 === 0 ? 1 : 0)
  return {
    name: 'a quorum whose nodes fail and forget',
    size: { processes: clients, workers: 1, ms: quorumMs },
    async play(reduction = {}) {
      const story = new Story(reduction)
      const nodes = seed % 48 === 0 ? 5 : 3
      const { processes = clients, ms = quorumMs } = reduction
      const { summary, violations } = await quorumTour({ seed, nodes, clients: processes, ms, onEvents: story.note })
      return story.played(
        violations.map(({ message }) => message),
        summary.holds,
      )
    },
  }
}

function sizesOf({ processes, workers, ms }: Reduction): { processes?: number; workers?: number; ms?: number } {
  return {
    ...(processes !== undefined && { processes }),
    ...(workers !== undefined && { workers }),
    ...(ms !== undefined && { ms }),
  }
}

/** Counts the faults of one play and leaves some out, and hashes what happened. */
class Story {
  readonly #faults: ReadonlySet<number> | undefined
  readonly #hash = createHash('sha256')
  #count = 0

  constructor({ faults }: Reduction) {
    this.#faults = faults
  }

  readonly strikes = (): boolean => {
    this.#count += 1
    return this.#faults?.has(this.#count) ?? true
  }

  readonly note = (events: readonly HistoryEvent[]): void => {
    for (const event of events) this.#hash.update(JSON.stringify(event))
  }

  played(wrong: readonly string[], holds: number): Played {
    return { wrong, holds, faults: this.#count, hash: this.#hash.digest('hex').slice(0, 16) }
  }
}
