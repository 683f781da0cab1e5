import { setTimeout as pause } from 'node:timers/promises'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { connect } from '../../src/index.ts'
import { LeaseholdError, messageOf } from '../../src/core/errors.ts'
import { readHistory, type HistoryEvent } from '../../src/testing/index.ts'
import { makeFolder, removeFolder } from '../../test/support/scratch-folder.ts'
import { Crew, type RestedClient } from './crew.ts'
import { clientFaults } from './client-faults.ts'
import { networkFaults } from './network.ts'
import { faultLine, lanes, planRound, type Abilities, type PlannedFault } from './plan.ts'
import { RoundHistory, type Forgetting, type HoldSpan } from './round-history.ts'
import { openAttempts } from './open-attempts.ts'
import type { ChaosStore, Heal } from './store.ts'

export interface ChaosOptions {
  readonly seed: number
  /** How many rounds, each `roundMs` of faults and then a rest. `Infinity`: until `untilMs`. */
  readonly rounds: number
  readonly roundMs: number
  /** When to begin no further round, by `monotonicMs`. */
  readonly untilMs?: number
  /** To end after the first round by which the unfenced counter has lost an update. */
  readonly endsWhenShown?: boolean
  readonly processes?: number
  readonly paceMs?: number
  readonly print?: (line: string) => void
}

/** A fault that happened, for the picture. */
export interface SeenFault {
  readonly kind: string
  readonly from: number
  readonly to: number
}

export interface ChaosOutcome {
  readonly rounds: number
  readonly operations: number
  readonly holds: number
  readonly handOvers: number
  readonly failures: Readonly<Record<string, number>>
  /** How often each kind happened. */
  readonly faults: Readonly<Record<string, number>>
  /** Everything that must never happen, in words: the first of them in full. */
  readonly violations: readonly string[]
  readonly lost: { readonly fenced: number; readonly unfenced: number }
  readonly writes: { readonly fenced: number; readonly unfenced: number }
  /** Writes that the fence refused. */
  readonly refusedWrites: number
  /** Of each round: how long after its last fault the last waiter was served. */
  readonly servedAfterMs: readonly number[]
  readonly ttlMs: number
  readonly handOverMs: { readonly p50: number; readonly p99: number; readonly max: number }
  readonly left: {
    readonly timers: number
    readonly sockets: number
    readonly locks: readonly string[]
    readonly other: readonly string[]
  }
  /** Of the clients that lived from the first rest to the last one: how much larger their heaps became, at worst. */
  readonly heapGrowth: number
  /** The last round. */
  readonly picture: {
    readonly from: number
    readonly spans: readonly HoldSpan[]
    readonly faults: readonly SeenFault[]
  }
}

const defaultTtlMs = 2000
/** Longer than a dead process's lease and any record that a store keeps for late requests of it. */
const leftWithinMs = 15_000
/** How long a store may be away when the run is over. */
const lookedWithinMs = 60_000

/** Plays rounds of faults over a store, with real client processes, and checks what they wrote. */
export async function chaos(store: ChaosStore, options: ChaosOptions): Promise<ChaosOutcome> {
  const run = new ChaosRun(store, options)
  try {
    return await run.play()
  } finally {
    run.dispose()
  }
}

/** How long after the last fault, or after it asked if that was later, the last waiter had its answer. */
function lastServed(events: readonly HistoryEvent[], healedAt: number): { servedAfterMs: number; last: string } {
  const asked = new Map<string, Extract<HistoryEvent, { type: 'acquire' }>>()
  let servedAfterMs = 0
  let last = 'nobody waited'
  for (const event of events) {
    if (event.type === 'acquire') asked.set(event.attempt, event)
    if (event.type !== 'granted' && event.type !== 'refused') continue
    const acquire = asked.get(event.attempt)
    const afterMs = event.at - Math.max(healedAt, acquire?.at ?? healedAt)
    if (afterMs <= servedAfterMs) continue
    servedAfterMs = afterMs
    last = `${acquire?.key} for ${event.attempt}, ${event.type}`
  }
  return { servedAfterMs, last }
}

/** What a store can have happen to it. */
export function abilitiesOf(store: ChaosStore): Abilities {
  return {
    clients: Object.keys(clientFaults).filter((kind) => store.keepsClocks !== true || !kind.includes('clock')),
    network: store.proxies.length === 0 ? [] : Object.keys(networkFaults),
    store: [...Object.keys(store.faults), ...(store.often ?? []).filter((kind) => kind in store.faults)],
  }
}

class ChaosRun {
  readonly #store: ChaosStore
  readonly #options: ChaosOptions
  readonly #folder = makeFolder('chaos')
  readonly #ttlMs: number
  readonly #crew: Crew
  readonly #history = new RoundHistory()
  readonly #violations: string[] = []
  readonly #faultCounts: Record<string, number> = {}
  readonly #failures: Record<string, number> = {}
  readonly #servedAfterMs: number[] = []
  readonly #handOverMs: { p50: number; p99: number; max: number }[] = []
  readonly #firstHeaps = new Map<string, number>()
  readonly #lastHeaps = new Map<string, number>()
  #rounds = 0
  #operations = 0
  #holds = 0
  #handOvers = 0
  #picture: ChaosOutcome['picture'] = { from: 0, spans: [], faults: [] }

  constructor(store: ChaosStore, options: ChaosOptions) {
    this.#store = store
    this.#options = options
    this.#ttlMs = store.ttlMs ?? defaultTtlMs
    const { processes = 5, paceMs = 4 } = options
    this.#crew = new Crew({ store, folder: this.#folder, processes, ttlMs: this.#ttlMs, paceMs })
  }

  async play(): Promise<ChaosOutcome> {
    const { rounds, untilMs = Infinity, endsWhenShown = false } = this.#options
    await this.#crew.start()
    const isShown = (): boolean => endsWhenShown && this.#crew.resources.lostUpdates('unfenced') > 0
    while (this.#rounds < rounds && monotonicMs() < untilMs && !isShown()) await this.#playRound()
    const ended = await this.#crew.end()
    const { resources, complaints } = this.#crew
    const growths = [...this.#lastHeaps].map(([name, bytes]) => bytes / (this.#firstHeaps.get(name) ?? bytes))
    return {
      rounds: this.#rounds,
      operations: this.#operations,
      holds: this.#holds,
      handOvers: this.#handOvers,
      failures: this.#failures,
      faults: this.#faultCounts,
      violations: [...this.#violations, ...complaints],
      lost: { fenced: resources.lostUpdates('fenced'), unfenced: resources.lostUpdates('unfenced') },
      writes: { fenced: resources.figures('fenced').writes, unfenced: resources.figures('unfenced').writes },
      refusedWrites: resources.figures('fenced').refused,
      servedAfterMs: this.#servedAfterMs,
      ttlMs: this.#ttlMs,
      handOverMs: {
        p50: middle(this.#handOverMs.map(({ p50 }) => p50)),
        p99: middle(this.#handOverMs.map(({ p99 }) => p99)),
        max: Math.max(0, ...this.#handOverMs.map(({ max }) => max)),
      },
      left: {
        timers: sum(ended.map(({ timers }) => timers)),
        sockets: sum(ended.map(({ sockets }) => sockets)),
        locks: await this.#locksLeft(),
        other: (await this.#store.left?.()) ?? [],
      },
      heapGrowth: Math.max(0, ...growths),
      picture: this.#picture,
    }
  }

  dispose(): void {
    this.#crew.dispose()
    removeFolder(this.#folder)
  }

  async #playRound(): Promise<void> {
    const { seed, roundMs, print = () => {} } = this.#options
    const plan = planRound(seed, this.#rounds, abilitiesOf(this.#store), roundMs)
    this.#rounds += 1
    const from = monotonicMs()
    const seen: SeenFault[] = []
    const forgettings: Forgetting[] = []
    for (const planned of plan) print(faultLine(planned))
    const byLane = lanes.map((lane) => plan.filter((fault) => fault.lane === lane))
    await Promise.all(byLane.map((faults) => this.#playLane(faults, from, seen, forgettings)))
    // What waits for data, or is silent for good, would strike after the last fault.
    for (const proxy of this.#store.proxies) proxy.mend()
    const healedAt = monotonicMs()
    const rested = await this.#crew.rest().catch(async (error: unknown) => {
      throw new Error(`${messageOf(error)}\n${await this.#unserved()}`)
    })
    const { violations, summary, spans, events } = this.#history.check(this.#crew.logs, forgettings)
    for (const violation of violations) {
      const about = events.filter((event) => 'attempt' in event && violation.attempts.includes(event.attempt))
      const detail = [...about, ...seen].map((each) => JSON.stringify(each)).join('\n  ')
      this.#violations.push(`round ${this.#rounds - 1}, ${violation.kind}: ${violation.message}\n  ${detail}`)
    }
    this.#count(rested, events, healedAt)
    this.#holds += summary.holds
    this.#operations += events.filter(({ type }) => type === 'acquire' || type === 'release').length
    this.#handOvers += summary.handOvers
    this.#handOverMs.push(summary.handOverMs)
    this.#picture = { from, spans, faults: seen }
    const { resources } = this.#crew
    print(
      `round ${this.#rounds - 1}: ${summary.holds} holds, ${plan.length} faults, ${violations.length} violations, served after ${Math.round(this.#servedAfterMs.at(-1) ?? 0)} ms, lost updates: ${resources.lostUpdates('fenced')} fenced, ${resources.lostUpdates('unfenced')} unfenced`,
    )
    this.#crew.work()
  }

  #count(rested: readonly RestedClient[], events: readonly HistoryEvent[], healedAt: number): void {
    for (const { name, failures, heapBytes } of rested) {
      for (const [code, count] of Object.entries(failures)) this.#failures[code] = (this.#failures[code] ?? 0) + count
      if (!this.#firstHeaps.has(name)) this.#firstHeaps.set(name, heapBytes)
      this.#lastHeaps.set(name, heapBytes)
    }
    const { servedAfterMs, last } = lastServed(events, healedAt)
    this.#servedAfterMs.push(servedAfterMs)
    const restedAfterMs = Math.max(...rested.map((client) => client.at)) - healedAt
    this.#options.print?.(
      `the last waiter was served after ${Math.round(servedAfterMs)} ms (${last}), the last worker after ${Math.round(restedAfterMs)} ms, with what it began meanwhile`,
    )
  }

  async #playLane(
    faults: readonly PlannedFault[],
    startedAt: number,
    seen: SeenFault[],
    forgettings: Forgetting[],
  ): Promise<void> {
    for (const fault of faults) {
      await pause(Math.max(0, startedAt + fault.atMs - monotonicMs()))
      // A store that took long to come back has no time for the rest.
      if (monotonicMs() > startedAt + this.#options.roundMs) return
      const from = monotonicMs()
      const heal = await this.#begin(fault)
      await pause(fault.forMs)
      await heal()
      const to = monotonicMs()
      this.#faultCounts[fault.kind] = (this.#faultCounts[fault.kind] ?? 0) + 1
      seen.push({ kind: fault.kind, from, to })
      if (fault.lane === 'store' && this.#store.faults[fault.kind]?.forgets === true) forgettings.push({ from, to })
    }
  }

  async #begin({ lane, kind, choice }: PlannedFault): Promise<Heal> {
    if (lane === 'store') return (await this.#store.faults[kind]?.begin(choice, this.#crew)) ?? (() => {})
    if (lane === 'clients') return (await clientFaults[kind]?.(this.#crew, choice)) ?? (() => {})
    const { proxies } = this.#store
    const proxy = proxies[choice % proxies.length]
    return (proxy && networkFaults[kind]?.(proxy)) ?? (() => {})
  }

  /** Who asked, or holds, and has not ended, and what the store says of those locks. */
  async #unserved(): Promise<string> {
    const open = openAttempts(readHistory(this.#crew.logs), monotonicMs())
    await using locks = await connect(this.#store.directUrl)
    const stored = (await locks.list()).locks.map((lock) => JSON.stringify(lock))
    return [...open, ...stored].join('\n')
  }

  /** The locks that the store still has when nobody can want one. */
  async #locksLeft(): Promise<readonly string[]> {
    const deadline = monotonicMs() + lookedWithinMs
    for (;;) {
      try {
        return await this.#lookForLocks()
      } catch (error) {
        // A server may have fallen over by itself, and comes back.
        const isAway = error instanceof LeaseholdError && error.code === 'UNAVAILABLE'
        if (!isAway || monotonicMs() > deadline) throw error
        await pause(500)
      }
    }
  }

  async #lookForLocks(): Promise<readonly string[]> {
    await using locks = await connect(this.#store.directUrl)
    const deadline = monotonicMs() + leftWithinMs
    for (;;) {
      // Expired leases of dead clients stay in some stores until somebody wants the lock, or sweeps.
      await locks.sweep()
      const { locks: found } = await locks.list()
      if (found.length === 0 || monotonicMs() > deadline) return found.map((lock) => JSON.stringify(lock))
      await pause(200)
    }
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function middle(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0
}
