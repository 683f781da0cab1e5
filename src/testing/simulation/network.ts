import { LeaseholdError } from '../../core/errors.ts'
import type { World } from './world.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { ClocklessStore, DocumentStore } from '../../drivers/document/driver.ts'
import type { LockDriver, ClaimStatus } from '../../core/contract/driver.ts'

/** What may happen to a message on its way. @internal */
export interface Weather {
  readonly delayMs: () => number
  /** Nothing is sent, and that is known. */
  readonly refuses: () => boolean
  readonly loses: () => boolean
  /** A request arrives twice. */
  readonly repeats: () => boolean
}

/** How long a process waits for an answer before it calls the outcome unknown. */
const answerTimeoutMs = 400

/**
 * The line between one process and a store. A late message still arrives, long after its sender gave up, and in any
 * order.
 */
export interface NetworkLink {
  /**
   * Has the store do something. Undefined: there was no answer in time, and it may or may not have been done. Rejects if nothing
   * was sent, and with what the store throws.
   */
  ask<Answer>(work: () => Answer | Promise<Answer>): Promise<Answer | undefined>
  /** The same for what is only read: no answer is a failure like any other. */
  read<Answer>(work: () => Answer | Promise<Answer>): Promise<Answer>
  /** Sends the process a notification. */
  deliver(action: () => void): void
}

/** A line between a simulated process and its store, in a world of its own. @internal */
export class SimulatedLink implements NetworkLink {
  readonly #world: World
  readonly #process: SimulatedProcess
  readonly #weather: Weather

  constructor(world: World, process: SimulatedProcess, weather: Weather) {
    this.#world = world
    this.#process = process
    this.#weather = weather
  }

  ask<Answer>(work: () => Answer | Promise<Answer>): Promise<Answer | undefined> {
    const { loses, refuses, repeats } = this.#weather
    return new Promise((resolve, reject) => {
      if (refuses()) return this.#later(() => this.#process.enter(() => reject(linkDown('Nothing was sent.'))))
      const arrive = async (): Promise<void> => {
        const answer = await outcomeOf(work)
        if (!loses()) this.#later(() => this.#process.enter(() => answer(resolve, reject)))
      }
      const copies = repeats() ? 2 : 1
      if (!loses()) this.#later(() => Array.from({ length: copies }, arrive))
      this.#process.environment.timer(answerTimeoutMs, () => resolve(undefined))
    })
  }

  async read<Answer>(work: () => Answer | Promise<Answer>): Promise<Answer> {
    const answer = await this.ask(work)
    if (answer === undefined) throw linkDown('There was no answer.')
    return answer
  }

  deliver(action: () => void): void {
    if (!this.#weather.loses()) this.#later(() => this.#process.enter(action))
  }

  #later(action: () => void): void {
    this.#world.at(this.#weather.delayMs(), action)
  }
}

type Settle<Answer> = (resolve: (answer: Answer) => void, reject: (error: unknown) => void) => void

/** The outcome of the work, to be delivered later. */
async function outcomeOf<Answer>(work: () => Answer | Promise<Answer>): Promise<Settle<Answer>> {
  try {
    const answer = await work()
    return (resolve) => resolve(answer)
  } catch (error) {
    return (_resolve, reject) => reject(error)
  }
}

/** The error of a message that was never sent. @internal */
export function linkDown(message: string): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'network' })
}

const unanswered: ClaimStatus = { state: 'unknown', error: linkDown('There was no answer.') }
const nothingToDispose: Disposable = { [Symbol.dispose]: () => {} }

/** The driver of a process whose store does all the work itself: requests, answers and notifications go over the line. */
export function overNetwork(line: NetworkLink, store: LockDriver): LockDriver {
  return {
    name: store.name,
    supports: store.supports,
    open: async () => {},
    async send(requests) {
      const statuses = await line.ask(() => store.send(requests))
      return statuses ?? requests.map(() => unanswered)
    },
    list: (query) => line.read(() => store.list(query)),
    listen: (onNotification, onGap) =>
      store.listen?.(
        (...notification) => line.deliver(() => onNotification(...notification)),
        () => line.deliver(() => onGap?.()),
      ) ?? nothingToDispose,
    ...(store.dataAgeMs !== undefined && { dataAgeMs: () => line.read(async () => (await store.dataAgeMs?.()) ?? 0) }),
    close: async () => {},
  }
}

/** The documents of a process that does the work itself, for `documentDriver`: what it reads and swaps goes over the line. */
export function documentsOverNetwork<Revision>(
  line: NetworkLink,
  store: DocumentStore<Revision>,
): DocumentStore<Revision> {
  return {
    name: store.name,
    supports: store.supports,
    open: async () => {},
    load: (keys) => line.read(() => store.load(keys)),
    async swap(swaps) {
      const swapped = await line.ask(() => store.swap(swaps))
      return swapped ?? swaps.map(() => ({ unknown: linkDown('There was no answer.') }))
    },
    list: (query) => line.read(() => store.list(query)),
    listen: (onNotification, onGap) =>
      store.listen?.(
        (...notification) => line.deliver(() => onNotification(...notification)),
        () => line.deliver(() => onGap?.()),
      ) ?? nothingToDispose,
    ...(store.dataAgeMs !== undefined && { dataAgeMs: () => line.read(async () => (await store.dataAgeMs?.()) ?? 0) }),
    close: async () => {},
    async fast(requests) {
      // Nothing is fast: the rule decides.
      if (store.fast === undefined) return requests.map(() => undefined)
      return (await line.ask(() => store.fast?.(requests))) ?? requests.map(() => unanswered)
    },
    absorbs: (key, change) => store.absorbs?.(key, change) ?? false,
    notify: (notifications) => store.notify?.(notifications),
  }
}

/** The same for a store without a clock. */
export function clocklessOverNetwork<Revision>(
  line: NetworkLink,
  store: ClocklessStore<Revision>,
): ClocklessStore<Revision> {
  return {
    clock: 'none',
    name: store.name,
    supports: store.supports,
    ...(store.polling !== undefined && { polling: store.polling }),
    ...(store.absentRevision !== undefined && { absentRevision: store.absentRevision }),
    open: async () => {},
    load: (keys) => line.read(() => store.load(keys)),
    async swap(swaps) {
      const swapped = await line.ask(() => store.swap(swaps))
      return swapped ?? swaps.map(() => ({ unknown: linkDown('There was no answer.') }))
    },
    list: (query) => line.read(() => store.list(query)),
    close: async () => {},
  }
}
