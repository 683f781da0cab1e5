/**
 * The etcd leases that claims of this driver live on: one for each ttl, in whole seconds, and one for each claim that is to
 * outlive its process. Of a shared lease up to a sixth may be over when a claim is put on it. Who goes on renewing is told so;
 * a claim that nobody will renew must get all of its time.
 *
 * A grant is agreed on by a majority, and a new leader gives every lease its whole time again, so a lease lasts for its
 * ttl at least, counted from before the grant was sent. A leader answers a keep-alive by itself, though, and one that has
 * been deposed without knowing it does so too. So a keep-alive counts only if the same node, which was in that term before,
 * has afterwards done something that needs the majority, and is in the same term still: decision 080.
 */
import { randomBytes } from 'node:crypto'
import { isLeaseThere } from '../rpc/errors.ts'
import { calls, grantRequest, leaseRequest, leaseReply } from '../rpc/messages.ts'

/** A node, as long as we are connected to it. */
interface Node {
  /** The term of its last answer. */
  term: number
}

/** The way to the nodes: see `client.ts`. */
export interface LeaseClient {
  session(): Promise<Node>
  call(
    path: string,
    message: Buffer,
    timeoutMs: number,
  ): Promise<{ readonly data: Buffer; readonly session: Node; readonly callNumber: number }>
  /** How many calls have been sent. */
  readonly callsSent: number
}

/** A keep-alive that was answered, and not yet proved. */
interface UnconfirmedKeepAlive {
  readonly sentAt: number
  readonly session: Node
  readonly term: number
  /** Calls sent later than this one can prove it. */
  readonly callNumber: number
}

interface Lease {
  readonly id: number
  readonly seconds: number
  /** When it was first asked for. */
  readonly askedAt: number
  /** Claims of the same ttl live on it, or have done so. */
  isShared: boolean
  granted: boolean
  /** It may be gone, whatever was sure. */
  isSuspect: boolean
  lastsMs: number
  /** Until then it lives, on the clock of this process. */
  sureUntil: number
  unconfirmed: UnconfirmedKeepAlive | undefined
  underWay: Promise<void> | undefined
}

export interface LeasesSetup {
  readonly client: LeaseClient
  readonly now: () => number
  /** For how many seconds a lease is wanted on which claims of this ttl live. */
  readonly secondsFor: (ttlMs: number) => number
}

/** A lease is kept alive once this part of it is over. */
const freshPart = 1 / 6
/** What is waited for an answer to that: whoever lives on the lease must have time to ask again. */
const answerPart = 1 / 3

/** What is waited for etcd to end a lease that is of no more use. */
const dropMs = 5000

export class Leases {
  readonly #setup: LeasesSetup
  readonly #bySeconds = new Map<number, Lease>()
  readonly #byId = new Map<number, Lease>()

  constructor(setup: LeasesSetup) {
    this.#setup = setup
  }

  /** The lease for claims of this ttl; 0: there is none yet. */
  idFor(ttlMs: number): number {
    const lease = this.#bySeconds.get(this.#setup.secondsFor(ttlMs))
    return lease?.granted === true ? lease.id : 0
  }

  /** What is sure to be left of a lease of ours; undefined: it is none of ours. */
  leftMs(id: number): number | undefined {
    const lease = this.#byId.get(id)
    return lease === undefined ? undefined : lease.sureUntil - this.#setup.now()
  }

  /** Resolves once there is a lease for claims of this ttl with most of its time before it. */
  async secure(ttlMs: number, timeoutMs: number): Promise<void> {
    const seconds = this.#setup.secondsFor(ttlMs)
    const lease = this.#bySeconds.get(seconds) ?? this.#share(seconds)
    if (this.#isFresh(lease)) return
    lease.underWay ??= this.#refresh(lease, timeoutMs).finally(() => (lease.underWay = undefined))
    await lease.underWay
    // It was over: another takes its place.
    if (this.#bySeconds.get(seconds) !== lease) await this.secure(ttlMs, timeoutMs)
  }

  /** A lease for one claim only, with all of its time before it. */
  async own(ttlMs: number, timeoutMs: number): Promise<number> {
    const lease = this.#invent(this.#setup.secondsFor(ttlMs))
    await this.#grant(lease, timeoutMs)
    this.#forgetOld()
    this.#byId.set(lease.id, lease)
    return lease.id
  }

  /** Ends a lease that was for one claim only, and that nothing is on any more. Otherwise etcd would keep it until its time is over. */
  drop(id: number): void {
    const lease = this.#byId.get(id)
    if (lease === undefined || lease.isShared) return
    this.#byId.delete(id)
    // Not waited for, and may fail: the lease ends by itself.
    this.#setup.client.call(calls.revoke, leaseRequest(id), dropMs).catch(() => {})
  }

  /** Takes in what a node answered to something that needs the majority. */
  confirm({ session, callNumber }: { readonly session: Node; readonly callNumber: number }, term: number): void {
    session.term = Math.max(session.term, term)
    for (const lease of this.#bySeconds.values()) {
      const { unconfirmed } = lease
      if (unconfirmed === undefined || unconfirmed.session !== session || callNumber <= unconfirmed.callNumber) continue
      lease.unconfirmed = undefined
      if (term === unconfirmed.term) lease.sureUntil = Math.max(lease.sureUntil, unconfirmed.sentAt + lease.lastsMs)
    }
  }

  /** One of them may be gone: each is asked for before it is used again. */
  suspectAll(): void {
    for (const lease of this.#bySeconds.values()) lease.isSuspect = lease.granted
  }

  #isFresh({ sureUntil, unconfirmed, lastsMs, granted, isSuspect }: Lease): boolean {
    const until = unconfirmed === undefined ? sureUntil : Math.max(sureUntil, unconfirmed.sentAt + lastsMs)
    return granted && !isSuspect && until - this.#setup.now() > (1 - freshPart) * lastsMs
  }

  #share(seconds: number): Lease {
    const lease = this.#invent(seconds)
    lease.isShared = true
    this.#bySeconds.set(seconds, lease)
    this.#forgetOld()
    this.#byId.set(lease.id, lease)
    return lease
  }

  /** Of an id that nobody else has: a grant whose reply was lost can be sent once more. */
  #invent(seconds: number): Lease {
    const id = randomBytes(6).readUIntBE(0, 6) + 1
    const askedAt = this.#setup.now()
    return {
      id,
      seconds,
      askedAt,
      isShared: false,
      granted: false,
      isSuspect: false,
      lastsMs: seconds * 1000,
      sureUntil: -Infinity,
      unconfirmed: undefined,
      underWay: undefined,
    }
  }

  #refresh(lease: Lease, timeoutMs: number): Promise<void> {
    return lease.granted ? this.#keepAlive(lease, timeoutMs) : this.#grant(lease, timeoutMs)
  }

  async #grant(lease: Lease, timeoutMs: number): Promise<void> {
    const { client, now } = this.#setup
    const sentAt = now()
    try {
      const reply = await client.call(calls.grant, grantRequest(lease.id, lease.seconds), timeoutMs)
      const { seconds } = leaseReply.read(reply.data)
      // Very short ones are made longer, and none shorter.
      lease.lastsMs = Math.max(lease.seconds, seconds) * 1000
      lease.granted = true
      lease.sureUntil = sentAt + lease.lastsMs
    } catch (error) {
      if (!isLeaseThere(error)) throw error
      // Ours: an earlier grant came through, and only its answer did not. Little of it may be left.
      lease.granted = true
      lease.sureUntil = lease.askedAt + lease.lastsMs
      await this.#keepAlive(lease, timeoutMs)
    }
  }

  async #keepAlive(lease: Lease, timeoutMs: number): Promise<void> {
    const { client, now } = this.#setup
    const before = await client.session()
    const { term } = before
    const sentAt = now()
    const answerMs = Math.min(timeoutMs, answerPart * lease.lastsMs)
    const { data, session } = await client.call(calls.keepAlive, leaseRequest(lease.id), answerMs)
    const reply = leaseReply.read(data)
    if (reply.seconds <= 0) {
      lease.sureUntil = -Infinity
      this.#bySeconds.delete(lease.seconds)
      return
    }
    lease.isSuspect = false
    // Of another node the term before is not known: it may have asked a leader that was none any more.
    if (session !== before) return
    lease.unconfirmed = { sentAt, session, term, callNumber: client.callsSent }
  }

  /** Leases that are over are of no use to anybody. */
  #forgetOld(): void {
    for (const [id, lease] of this.#byId) {
      if (this.#bySeconds.get(lease.seconds) === lease) continue
      if (this.leftMs(id) === undefined || lease.sureUntil < this.#setup.now()) this.#byId.delete(id)
    }
  }
}
