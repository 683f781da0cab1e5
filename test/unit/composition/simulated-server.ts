import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
} from '../../../src/core/contract/driver.ts'
import { Listeners } from '../../../src/drivers/kit/listeners.ts'
import type { Environment } from '../../../src/core/time/environment.ts'
import { FaultLog, StoreFacade } from '../../../src/server/store/store-facade.ts'
import { ServerMetrics } from '../../../src/server/store/metrics.ts'
import { Sessions } from '../../../src/server/store/sessions.ts'
import { linkDown, type NetworkLink } from '../../../src/testing/simulation/network.ts'
import { anybody } from '../../../src/server/auth/tokens.ts'

/** What a client, or another server, reaches a server over. */
export type Way = Pick<NetworkLink, 'ask' | 'read' | 'deliver'>

/** The receivers of a stream's events. */
interface Received {
  readonly onNotification: OnNotification
  readonly onGap: OnGap
}

/** One process of the server. */
interface Run {
  readonly gate: StoreFacade
  readonly sessions: Sessions
  /** The sessions that have a notification stream. */
  readonly streams: Set<string>
}

/** Longer than a claim waits to be answered, at times: a server may end between a request and its answer. */
const workMs = 15

/**
 * A server in a simulated world: the real way from a call to the store and back, without HTTP. Work and answers
 * under way when it is killed are lost.
 */
export class SimulatedServer {
  readonly #store: LockDriver
  readonly #environment: Environment
  #run: Run | undefined

  constructor(store: LockDriver, environment: Environment) {
    this.#store = store
    this.#environment = environment
    this.start()
  }

  kill(): void {
    this.#run = undefined
  }

  start(): void {
    const environment = this.#environment
    const sessions = new Sessions(environment, { claimsMax: 1000, claimsPerTokenMax: 1000 }, (status) => status)
    const keepers = { sessions, metrics: new ServerMetrics(), faults: new FaultLog(undefined, environment) }
    this.#run = { gate: new StoreFacade(this.#store, environment, keepers), sessions, streams: new Set() }
  }

  /** The driver of one client. */
  driver(line: Way, environment: Environment): LockDriver {
    const session = environment.id()
    const listeners = new Listeners()
    const stream: Received = {
      onNotification: (...notification) => line.deliver(() => listeners.notify(...notification)),
      onGap: () => line.deliver(() => listeners.gap()),
    }
    return {
      name: 'http',
      supports: this.#store.supports,
      open: async () => {},
      send: async (requests) => {
        const statuses = await line.ask(() => this.#send(requests, session, stream))
        const error = linkDown('There was no answer.')
        return statuses ?? requests.map(() => ({ state: 'unknown', error }))
      },
      list: (query: ListQuery): Promise<KeyPage> => line.read(() => this.#whileUp(({ gate }) => gate.list(query))),
      listen: (onNotification, onGap) => listeners.listen(onNotification, onGap),
      dataAgeMs: () => line.read(() => this.#whileUp(async ({ gate }) => (await gate.dataAgeMs()) ?? Number.NaN)),
      close: async () => listeners.clear(),
    }
  }

  #send(requests: readonly Request[], session: string, received: Received): Promise<readonly ClaimStatus[]> {
    return this.#whileUp((run) => {
      this.#stream(run, session, received)
      return run.gate.send(requests, session)
    })
  }

  /** The notification stream, which ends with the server and begins anew with the first request afterwards. */
  #stream(run: Run, session: string, received: Received): void {
    if (run.streams.has(session)) return
    run.streams.add(session)
    const send = (event: string, data: unknown): void => {
      const { key, id, status } = data as { key: string; id: string; status: ClaimStatus }
      if (this.#run !== run) return
      if (event === 'gap') received.onGap()
      else received.onNotification(key, id, event === 'poll' ? 'poll' : status)
    }
    run.sessions.stream(session, anybody).attach(send, () => {})
  }

  /** Has the server do something, which takes a moment before and after. Killed meanwhile, it never answers. */
  async #whileUp<Answer>(work: (run: Run) => Promise<Answer>): Promise<Answer> {
    const run = this.#run
    if (run === undefined) throw linkDown('Nobody listens.')
    await this.#pause(run)
    const answer = await work(run)
    await this.#pause(run)
    return answer
  }

  #pause(run: Run): Promise<void> {
    const environment = this.#environment
    return new Promise((resolve) => {
      environment.timer(environment.random() * workMs, () => {
        if (this.#run === run) resolve()
      })
    })
  }
}
