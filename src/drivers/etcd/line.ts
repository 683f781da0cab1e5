/** The way to an etcd: one node at a time, and the next one after a failure. */
import type { ConnectionOptions } from 'node:tls'
import { Opening } from '../../core/opening.ts'
import type { Address } from './address.ts'
import { beforeSending, isNodesFault, isStaleToken, unsent } from './faults.ts'
import { authenticateRequest, calls, rangeRequest, readRange, readToken } from './messages.ts'
import { Session } from './session.ts'

/** An answer, and from whom: what a node says proves something about what else it said. */
export interface Reply {
  readonly data: Buffer
  readonly session: Session
  /** Calls are counted as they are sent. */
  readonly turn: number
}

export interface LineSetup {
  readonly address: Address
  readonly tls: ConnectionOptions | undefined
  /** Any key that may be read here: it is read to see whether a node is of use. */
  readonly probe: string
  readonly timeoutMs: number
  readonly now: () => number
}

/** The least time in which to try a node. */
const tryMinMs = 100

export class Line {
  readonly #setup: LineSetup
  readonly #opening = new Opening(() => this.#open())
  #session: Session | undefined
  /** Which node is next. */
  #next = 0
  #closed = false
  /** What the store had come to when a node was last reached. */
  revision = 0
  /** How many calls have been sent. */
  turns = 0

  constructor(setup: LineSetup) {
    this.#setup = setup
    // Clients that start together need not all begin with the same node.
    this.#next = Math.floor(Math.random() * setup.address.endpoints.length)
  }

  /** The connection there is, or a new one. Rejects only if nothing was sent. */
  async session(): Promise<Session> {
    const session = this.#session
    if (session?.usable === true) return session
    return this.#opening.opened()
  }

  /** One call, to one node. */
  async call(path: string, message: Buffer, timeoutMs: number): Promise<Reply> {
    const session = await this.session()
    try {
      return await this.#say(session, path, message, timeoutMs)
    } catch (error) {
      if (isStaleToken(error)) return this.#callAgain(session, path, message, timeoutMs)
      if (isNodesFault(error)) this.drop(session)
      throw error
    }
  }

  /** The next call goes to another node. */
  drop(session: Session): void {
    session.retire()
    if (this.#session !== session) return
    this.#session = undefined
    this.#next += 1
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#opening.settled()
    this.#session?.close()
    this.#session = undefined
  }

  /** Tokens end with time, and with a change of users: whoever signs in again may go on where it was stopped. */
  async #callAgain(session: Session, path: string, message: Buffer, timeoutMs: number): Promise<Reply> {
    await this.#signIn(session, timeoutMs)
    return this.#say(session, path, message, timeoutMs)
  }

  async #say(session: Session, path: string, message: Buffer, timeoutMs: number): Promise<Reply> {
    const turn = (this.turns += 1)
    return { data: await session.call(path, message, timeoutMs), session, turn }
  }

  /** Tries each node once, until one is of use. */
  async #open(): Promise<Session> {
    const { address, timeoutMs, now } = this.#setup
    const { length } = address.endpoints
    const deadline = now() + timeoutMs
    let fault: unknown
    for (let tries = 0; tries < length && !this.#closed; tries += 1) {
      const tryMs = Math.max(tryMinMs, (deadline - now()) / (length - tries))
      try {
        return await this.#reach(tryMs)
      } catch (error) {
        fault = error
        this.#next += 1
        if (!isNodesFault(error)) break
      }
    }
    // Whatever was said to find out, none of it was a request of the caller.
    throw beforeSending(fault)
  }

  async #reach(timeoutMs: number): Promise<Session> {
    const { address, tls, probe, now } = this.#setup
    const deadline = now() + timeoutMs
    const endpoint = address.endpoints[this.#next % address.endpoints.length]
    if (endpoint === undefined) throw unsent('etcd', new Error('no node was named'))
    const session = await Session.open({ endpoint, tls }, timeoutMs)
    try {
      await this.#signIn(session, deadline - now())
      // Only a node that the others listen to can answer this: and then its term is known.
      const probed = await session.call(calls.range, rangeRequest({ key: probe }), Math.max(1, deadline - now()))
      const { term, revision } = readRange(probed)
      session.term = term
      this.revision = revision
      if (this.#closed) throw unsent(session.where, new Error('this store has been closed'))
      this.#session = session
      return session
    } catch (error) {
      session.close()
      throw error
    }
  }

  async #signIn(session: Session, timeoutMs: number): Promise<void> {
    const { login } = this.#setup.address
    if (login === undefined) return
    session.token = undefined
    const request = authenticateRequest(login.user, login.password)
    session.token = readToken(await session.call(calls.authenticate, request, Math.max(1, timeoutMs)))
  }
}
