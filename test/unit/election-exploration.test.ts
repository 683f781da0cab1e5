import { describe, expect, test } from 'vitest'
import { createLocks, type Election, type Lease, type Term } from '../../src/index.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { checkHistory, type HistoryEvent, type HistoryReport } from '../../src/testing/index.ts'
import { World } from '../../src/testing/simulation/world.ts'
import { driverOver } from './client/drivers.ts'
import { SimulatedLink } from '../../src/testing/simulation/network.ts'
import { SimulatedProcess } from '../../src/testing/simulation/simulated-process.ts'
import { injectFaults, weatherOf } from '../../src/testing/simulation/weather.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

const stormMs = 30_000
const tours = 60

describe('candidates whose lines fail, and whose processes are stopped and killed,', () => {
  test('lead one at a time, are elected and deposed in turns, and one leads when it is over', async () => {
    let elections = 0
    for (let seed = 1; seed <= tours; seed += 1) {
      const { violations, summary, complaints, leaders } = await tour(seed)
      elections += summary.holds
      const messages = violations.map(({ message }) => message)
      expect({ seed, violations: messages, complaints, leaders }).toEqual({
        seed,
        violations: [],
        complaints: [],
        leaders: 1,
      })
    }
    expect(elections, 'tours without elections show nothing').toBeGreaterThan(tours * 8)
  })
})

interface Findings extends HistoryReport {
  readonly complaints: readonly string[]
  /** How many think that they lead, long after the storm. */
  readonly leaders: number
}

async function tour(seed: number): Promise<Findings> {
  const world = new World(seed)
  const storeRate = world.clockRate()
  const store = memory({ clock: { now: () => world.now * storeRate, wall: () => 1_700_000_000_000 + world.now } })
  const storms = (): boolean => world.now < stormMs
  const events: HistoryEvent[] = []
  const complaints: string[] = []
  const elections = new Map<SimulatedProcess, Election>()

  const live = async (name: string): Promise<void> => {
    const process = new SimulatedProcess(world, world.clockRate())
    const line = new SimulatedLink(world, process, weatherOf(world, storms))
    const locks = await createLocks({ driver: driverOver(line, store), environment: process.environment })
    const office = new Office(world, process, name, events, complaints)
    const election = locks.elect('boss', {
      ttl: 1000,
      onElected: (term) => office.enter(term),
      onDeposed: () => office.leave(),
    })
    locks.on('renewed', () => office.renewed())
    elections.set(process, election)
    injectFaults(world, name, process, storms, events)
    const died = process.killed.then(() => 'died')
    if ((await Promise.race([stand(world, process, election, office), died])) !== 'died') return
    elections.delete(process)
    if (storms()) await live(`${name}'`)
  }
  const lives = Promise.all(['one', 'two', 'three'].map(live))
  lives.catch((error: unknown) => complaints.push(String(error)))
  await world.pass(2 * stormMs)
  const leaders = [...elections.values()].filter(({ isLeader }) => isLeader).length
  return { ...checkHistory(events, { fair: false }), complaints, leaders }
}

/** Campaigns and resigns as it likes; in the end it wants the office for good. */
async function stand(world: World, process: SimulatedProcess, election: Election, office: Office): Promise<void> {
  while (world.now < stormMs) {
    const wait = world.chance(0.3) ? { wait: world.between(100, 3000) } : {}
    let resigned = false
    const campaign = election.campaign(wait).catch((error: unknown) => office.refused(error, resigned))
    // Gives up in the middle of it, and begins anew at once, as somebody who has changed their mind.
    if (world.chance(0.3)) {
      await process.wait(world.between(0, 300))
      office.letGo()
      resigned = true
      await election.resign()
      await election.campaign(wait).catch((error: unknown) => office.refused(error))
    }
    await campaign
    await process.wait(world.between(100, 4000))
    if (world.chance(0.5)) {
      office.letGo()
      await election.resign()
    }
    await process.wait(world.between(0, 500))
  }
  await election.campaign()
}

/** What one candidate hears of its times in office, told to the history. */
class Office {
  readonly #world: World
  readonly #process: SimulatedProcess
  readonly #name: string
  readonly #events: HistoryEvent[]
  readonly #complaints: string[]
  #terms = 0
  #present: { readonly attempt: string; readonly lease: Lease } | undefined

  constructor(world: World, process: SimulatedProcess, name: string, events: HistoryEvent[], complaints: string[]) {
    this.#world = world
    this.#process = process
    this.#name = name
    this.#events = events
    this.#complaints = complaints
  }

  enter(term: Term): void {
    if (this.#present !== undefined) this.#complaints.push(`${this.#name} was elected twice`)
    const attempt = `${this.#name}/${(this.#terms += 1)}`
    const at = this.#world.now
    const lease = term as Lease
    this.#present = { attempt, lease }
    this.#events.push({ type: 'acquire', at, client: this.#name, attempt, key: 'boss', mode: 'exclusive' })
    this.#events.push({ type: 'granted', at, attempt, fence: term.fence, deadline: this.#deadlineOf(lease) })
  }

  renewed(): void {
    if (this.#present === undefined) return
    const { attempt, lease } = this.#present
    this.#events.push({ type: 'renewed', at: this.#world.now, attempt, deadline: this.#deadlineOf(lease) })
  }

  /** It is about to resign. */
  letGo(): void {
    if (this.#present === undefined) return
    this.#events.push({ type: 'release', at: this.#world.now, attempt: this.#present.attempt })
  }

  leave(): void {
    if (this.#present === undefined) this.#complaints.push(`${this.#name} was deposed and had not been elected`)
    else this.#events.push({ type: 'lost', at: this.#world.now, attempt: this.#present.attempt })
    this.#present = undefined
  }

  refused(error: unknown, resigned = false): void {
    const { code } = error as { code?: string }
    if (resigned && code === 'ABORTED') return
    if (code !== 'TIMEOUT' && code !== 'UNAVAILABLE') this.#complaints.push(`${this.#name}: ${String(error)}`)
  }

  #deadlineOf(lease: Lease): number {
    return this.#world.now + lease.remainingMs / this.#process.rate
  }
}
