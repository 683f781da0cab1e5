/** A client of an etcd: one node at a time, and the next node after a failure. */
import type { ConnectionOptions } from 'node:tls'
import { Lifecycle } from '../../kit/lifecycle.ts'
import type { EtcdAddress } from './address.ts'
import { beforeSending, isNodesFault, isStaleToken, unreachable } from './errors.ts'
import { authenticateRequest, calls, rangeRequest, rangeReply, authenticateReply } from './messages.ts'
import { Session } from './session.ts'

/** An answer, and the connection it came by: an answer of a node proves earlier answers of the same node. */
export interface EtcdReply {
  readonly data: Buffer
  readonly session: Session
  /** The number of the call: calls are counted as they are sent. */
  readonly callNumber: number
}

export interface EtcdClientSetup {
  readonly address: EtcdAddress
  readonly tls: ConnectionOptions | undefined
  /** A key that may be read: reading it shows whether a node is usable. */
  readonly healthKey: string
  readonly timeoutMs: number
  readonly now: () => number
  /** A node was reached: perhaps another one, or the same one after a restart. */
  readonly connected?: () => void
}

/** The least time in which to try a node. */
const tryMinMs = 100

export class EtcdClient {
  readonly #setup: EtcdClientSetup
  readonly #lifecycle = new Lifecycle<Session>(
    'This etcd store',
    () => this.#open(),
    (session) => session.close(),
  )
  /** All connections that have not ended, also those that take no more calls. */
  #sessions: Session[] = []
  /** The index of the node to try next. */
  #next = 0
  /** The revision of the store when a node was last reached. */
  revision = 0
  /** How many calls have been sent. */
  callsSent = 0

  constructor(setup: EtcdClientSetup) {
    this.#setup = setup
    // Clients that start together need not all begin with the same node.
    this.#next = Math.floor(Math.random() * setup.address.endpoints.length)
  }

  /** The term of the current node's last answer; 0: there is none. */
  get term(): number {
    return this.#lifecycle.current?.term ?? 0
  }

  /** The current connection, or a new one. Rejects only if nothing was sent. */
  async session(): Promise<Session> {
    const session = this.#lifecycle.current
    if (session?.usable === true) return session
    if (session !== undefined) this.#lifecycle.forget(session)
    return this.#lifecycle.opened()
  }

  /** One call, to one node. */
  async call(path: string, message: Buffer, timeoutMs: number): Promise<EtcdReply> {
    const session = await this.session()
    const deadline = this.#setup.now() + timeoutMs
    const { token } = session
    try {
      return await this.#send(session, path, message, timeoutMs).catch(async (error: unknown) => {
        if (!isStaleToken(error)) throw error
        await this.#signInAgain(session, token, deadline)
        return this.#send(session, path, message, this.#leftMs(deadline))
      })
    } catch (error) {
      if (isNodesFault(error)) this.drop(session)
      throw error
    }
  }

  /** The next call goes to another node. */
  drop(session: Session): void {
    session.retire()
    if (this.#lifecycle.current !== session) return
    this.#lifecycle.forget(session)
    this.#next += 1
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    for (const session of this.#sessions) session.close()
    await this.#lifecycle.settled()
    for (const session of this.#sessions) session.close()
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Tokens expire, and end when users change. The first call to notice signs in for all. */
  async #signInAgain(session: Session, staleToken: string | undefined, deadline: number): Promise<void> {
    if (session.token !== staleToken) return
    session.signingIn ??= this.#signIn(session, deadline).finally(() => (session.signingIn = undefined))
    try {
      await session.signingIn
    } catch (error) {
      throw beforeSending(error)
    }
  }

  async #send(session: Session, path: string, message: Buffer, timeoutMs: number): Promise<EtcdReply> {
    const callNumber = (this.callsSent += 1)
    return { data: await session.call(path, message, timeoutMs), session, callNumber }
  }

  /** Tries each node once, until one is usable. */
  async #open(): Promise<Session> {
    const { address, timeoutMs, now } = this.#setup
    const { length } = address.endpoints
    const deadline = now() + timeoutMs
    let fault: unknown
    for (let tries = 0; tries < length && !this.#lifecycle.isShut; tries += 1) {
      const tryMs = Math.max(tryMinMs, (deadline - now()) / (length - tries))
      try {
        return await this.#reach(tryMs)
      } catch (error) {
        fault = error
        this.#next += 1
        if (!isNodesFault(error)) break
      }
    }
    // Whatever was sent while connecting, it was not the caller's request.
    throw beforeSending(fault)
  }

  async #reach(timeoutMs: number): Promise<Session> {
    const { address, tls, healthKey, now } = this.#setup
    const deadline = now() + timeoutMs
    const endpoint = address.endpoints[this.#next % address.endpoints.length]
    if (endpoint === undefined) throw unreachable('etcd', new Error('no node was named'))
    const session = await Session.open({ endpoint, tls }, timeoutMs)
    this.#sessions = [...this.#sessions.filter(({ over }) => !over), session]
    try {
      await this.#signIn(session, deadline)
      // Only a node that reaches a majority can answer this read, and the answer has its term.
      const probed = await session.call(calls.range, rangeRequest({ key: healthKey }), this.#leftMs(deadline))
      const { header } = rangeReply.read(probed)
      session.term = header.term
      this.revision = header.revision
      if (!this.#lifecycle.isShut) this.#setup.connected?.()
      return session
    } catch (error) {
      session.close()
      throw error
    }
  }

  async #signIn(session: Session, deadline: number): Promise<void> {
    const { login } = this.#setup.address
    if (login === undefined) return
    const request = authenticateRequest(login.user, login.password)
    const reply = await session.call(calls.authenticate, request, this.#leftMs(deadline))
    session.token = authenticateReply.read(reply).token
  }

  #leftMs(deadline: number): number {
    return Math.max(1, deadline - this.#setup.now())
  }
}
