/**
 * The etcd leases that claims of this driver live on: one for each ttl, in whole seconds, and one for each claim that is to
 * outlive its process. Of a shared lease up to a sixth may have passed when a claim is put on it: an owner that goes on renewing is
 * told so, but a claim that nobody will renew must get all of its time.
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

/** The calls that leases need: see `rpc/client.ts`. */
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

/** A keep-alive that was answered, and not yet confirmed by a majority. */
interface UnconfirmedKeepAlive {
  readonly sentAt: number
  readonly session: Node
  readonly term: number
  /** Calls sent later than this one can confirm it. */
  readonly callNumber: number
}

interface Lease {
  readonly id: number
  readonly seconds: number
  /** When it was first asked for. */
  readonly askedAt: number
  /** Claims of the same ttl live on the lease, or have done so. */
  isShared: boolean
  granted: boolean
  /** The lease may be gone, whatever `sureUntil` says. */
  isSuspect: boolean
  lastsMs: number
  /** Until then the lease surely lives, on the clock of this process. */
  sureUntil: number
  unconfirmed: UnconfirmedKeepAlive | undefined
  underWay: Promise<void> | undefined
}

export interface LeasesSetup {
  readonly client: LeaseClient
  readonly now: () => number
  /** The seconds of a lease for claims of this ttl. */
  readonly secondsFor: (ttlMs: number) => number
}

/** A lease is kept alive once this part of it has passed. */
const freshPart = 1 / 6
/** The part of a lease that a keep-alive may take: there must be time for another. */
const answerPart = 1 / 3

/** The timeout of a revocation. */
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

  /** What is surely left of a lease of ours; undefined: the lease is not ours. */
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
    // The lease was over, and another takes its place.
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

  /** Revokes a lease for one claim only that no key is on any more: etcd would keep it until it expires. */
  drop(id: number): void {
    const lease = this.#byId.get(id)
    if (lease === undefined || lease.isShared) return
    this.#byId.delete(id)
    // Not waited for, and may fail: the lease expires by itself.
    this.#setup.client.call(calls.revoke, leaseRequest(id), dropMs).catch(() => {})
  }

  /** Takes in the answer of a node to a call that needs the majority. */
  confirm({ session, callNumber }: { readonly session: Node; readonly callNumber: number }, term: number): void {
    session.term = Math.max(session.term, term)
    for (const lease of this.#bySeconds.values()) {
      const { unconfirmed } = lease
      if (unconfirmed === undefined || unconfirmed.session !== session || callNumber <= unconfirmed.callNumber) continue
      lease.unconfirmed = undefined
      if (term === unconfirmed.term) lease.sureUntil = Math.max(lease.sureUntil, unconfirmed.sentAt + lease.lastsMs)
    }
  }

  /** A lease may be gone: each is kept alive before it is used again. */
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

  /** The id is unique, so a grant whose reply was lost can be sent again. */
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
      // etcd makes very short leases longer, and none shorter.
      lease.lastsMs = Math.max(lease.seconds, seconds) * 1000
      lease.granted = true
      lease.sureUntil = sentAt + lease.lastsMs
    } catch (error) {
      if (!isLeaseThere(error)) throw error
      // An earlier grant of ours was carried out, and only its reply was lost. Little of the lease may be left.
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
    // The earlier term of another node is not known: it may have asked a deposed leader.
    if (session !== before) return
    lease.unconfirmed = { sentAt, session, term, callNumber: client.callsSent }
  }

  /** Forgets leases that are over. */
  #forgetOld(): void {
    for (const [id, lease] of this.#byId) {
      if (this.#bySeconds.get(lease.seconds) === lease) continue
      if (this.leftMs(id) === undefined || lease.sureUntil < this.#setup.now()) this.#byId.delete(id)
    }
  }
}
