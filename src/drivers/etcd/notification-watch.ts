/**
 * Hears of what others do. Mail says what became of a claim; that the marker of a claim is gone tells those who wait behind
 * it to look. One stream has it all, and whatever it misses costs time only.
 */
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import type { Keyspace } from './keyspace.ts'
import { fromWireStatus } from '../../core/wire/replies.ts'
import type { Line } from './line.ts'
import { calls, readWatch, unwatchRequest, watchRequest, type Change, type WatchReply } from './messages.ts'
import type { OwnClaim, OwnClaims } from './own-claims.ts'
import type { MessageStream, Session } from './session.ts'

export interface NotificationWatchSetup {
  readonly line: Line
  readonly keyspace: Keyspace
  readonly channel: string
  readonly claims: OwnClaims
  readonly onNotification: (key: string, id: string, status: ClaimStatus) => void
  readonly ask: (key: string, id: string) => void
}

/** A key that claims of ours wait for. */
interface Followed {
  readonly watch: number
  /** The first change that has not been heard of. */
  from: number
  timer: NodeJS.Timeout | undefined
}

const reopening: Backoff = { attempts: Infinity, minMs: 50, maxMs: 5000, factor: 2, jitter: 0.2 }
/** Well above the 5 s of `--grpc-keepalive-min-time`: etcd ends a connection, with all its calls, for less. */
const pingEveryMs = 10_000
const pingAnswerMs = 4500
/** Who was let in hears that by mail: the one behind waits a little before it looks whether somebody died. */
const lookAfterMs = 5
const lookLaterMs = 25
const lookMaxMs = 1000
/** The watch that has our mail. */
const notificationWatch = 1

export class NotificationWatch {
  readonly #setup: NotificationWatchSetup
  readonly #keys = new Map<string, Followed>()
  readonly #keyOf = new Map<number, string>()
  /** Keys of which mail lies around that was read. */
  readonly #notificationKeys = new Set<string>()
  #notificationsFrom = 0
  #watches = notificationWatch
  #stream: MessageStream | undefined
  #session: Session | undefined
  #failures = 0
  #started = false
  #closed = false
  #timer: NodeJS.Timeout | undefined
  #pings: NodeJS.Timeout | undefined

  constructor(setup: NotificationWatchSetup) {
    this.#setup = setup
  }

  /** Begins to listen, if it has not, for whatever comes after this revision of the store. */
  start(revision: number): void {
    if (this.#started || this.#closed) return
    this.#started = true
    this.#notificationsFrom = revision + 1
    this.#open()
  }

  /** Listens for the end of those before our claims, from after this revision on. */
  follow(key: string, revision: number): void {
    if (this.#closed || this.#keys.has(key)) return
    const followed: Followed = { watch: (this.#watches += 1), from: revision + 1, timer: undefined }
    this.#keys.set(key, followed)
    this.#keyOf.set(followed.watch, key)
    this.#ask(key, followed)
  }

  /** Nobody of ours waits there any more. */
  unfollow(key: string): void {
    const followed = this.#keys.get(key)
    if (followed === undefined) return
    clearTimeout(followed.timer)
    this.#keys.delete(key)
    this.#keyOf.delete(followed.watch)
    this.#stream?.send(unwatchRequest(followed.watch))
  }

  /** Whether mail for a key lies around that has been read. Whoever asks removes it. */
  takeNotification(key: string): boolean {
    return this.#notificationKeys.delete(key)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    clearInterval(this.#pings)
    for (const { timer } of this.#keys.values()) clearTimeout(timer)
    this.#keys.clear()
    this.#stream?.close()
    this.#stream = undefined
  }

  // ---- the stream

  #open(): void {
    this.#setup.line.session().then(
      (session) => this.#listen(session),
      () => this.#openLater(),
    )
  }

  #listen(session: Session): void {
    if (this.#closed) return
    const { keyspace, channel } = this.#setup
    this.#session = session
    this.#stream = session.stream(
      calls.watch,
      (data) => this.#take(data),
      () => this.#openLater(),
    )
    this.#stream.send(
      watchRequest({
        watch: notificationWatch,
        ...keyspace.notificationKeys(channel),
        from: this.#notificationsFrom,
        removalsOnly: false,
      }),
    )
    for (const [key, followed] of this.#keys) this.#ask(key, followed)
    clearInterval(this.#pings)
    this.#pings = setInterval(() => void this.#ping(session), pingEveryMs).unref()
  }

  #openLater(): void {
    this.#stream = undefined
    clearInterval(this.#pings)
    if (this.#closed) return
    this.#failures += 1
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#open(), pauseMs(reopening, this.#failures, Math.random())).unref()
  }

  /** A stream over a connection that died silently would be silent for ever. */
  async #ping(session: Session): Promise<void> {
    if ((await session.ping(pingAnswerMs)) || this.#closed || this.#session !== session) return
    this.#setup.line.drop(session)
    this.#stream?.close()
  }

  #ask(key: string, { watch, from }: Followed): void {
    const { keyspace } = this.#setup
    this.#stream?.send(watchRequest({ watch, ...keyspace.markers(key), from, removalsOnly: true }))
  }

  // ---- what it says

  #take(data: Buffer): void {
    let reply: WatchReply
    try {
      reply = readWatch(data)
    } catch {
      this.#stream?.close()
      return
    }
    if (reply.canceled) this.#restart(reply)
    else if (reply.watch === notificationWatch) this.#readNotification(reply)
    else this.#readEnds(reply)
  }

  /** A watch has ended, or was refused: all begin anew, since etcd does not take the number of one that has ended. */
  #restart({ watch, compactRevision }: WatchReply): void {
    // We have ended it ourselves. One that was refused has no number.
    if (watch > notificationWatch && !this.#keyOf.has(watch)) return
    this.#stream?.close()
    if (compactRevision === 0) return
    // etcd has forgotten what came before: whoever may have missed something asks.
    this.#notificationsFrom = Math.max(this.#notificationsFrom, compactRevision)
    for (const followed of this.#keys.values()) followed.from = Math.max(followed.from, compactRevision)
    for (const claim of this.#setup.claims) this.#setup.ask(claim.key, claim.id)
  }

  #readNotification({ created, changes }: WatchReply): void {
    if (created && this.#failures > 0) {
      this.#failures = 0
      for (const key of this.#keys.keys()) {
        for (const { id } of this.#setup.claims.waitingFor(key)) this.#setup.ask(key, id)
      }
    }
    this.#notificationsFrom = Math.max(this.#notificationsFrom, revisionAfter(changes))
    for (const change of changes) if (!change.removed) this.#deliver(change)
  }

  #deliver({ pair }: Change): void {
    const { keyspace, channel, claims, onNotification } = this.#setup
    const key = keyspace.keyOfNotification(channel, pair.key)
    for (const { id, status } of notificationsIn(pair.value)) {
      if (claims.find(id) !== undefined) this.#notificationKeys.add(key)
      onNotification(key, id, status)
    }
  }

  #readEnds({ watch, changes }: WatchReply): void {
    const key = this.#keyOf.get(watch)
    const followed = key === undefined ? undefined : this.#keys.get(key)
    if (key === undefined || followed === undefined || changes.length === 0) return
    followed.from = Math.max(followed.from, revisionAfter(changes))
    for (const { removed, pair } of changes) {
      const { id } = this.#setup.keyspace.claimOfMarker(pair.key)
      // One of ours: its owner may not know.
      if (removed && this.#setup.claims.find(id) !== undefined) this.#setup.ask(key, id)
    }
    const first = this.#firstOf(key)
    if (first === undefined) return this.unfollow(key)
    first.ahead = Math.max(0, first.ahead - changes.length)
    followed.timer ??= setTimeout(
      () => this.#look(key, followed),
      Math.min(lookMaxMs, lookAfterMs + lookLaterMs * first.ahead),
    ).unref()
  }

  /** Asks for the first of ours: that moves the whole queue. */
  #look(key: string, followed: Followed): void {
    followed.timer = undefined
    const first = this.#firstOf(key)
    if (first !== undefined) this.#setup.ask(key, first.id)
  }

  #firstOf(key: string): OwnClaim | undefined {
    let first: OwnClaim | undefined
    for (const claim of this.#setup.claims.waitingFor(key)) {
      if (first === undefined || claim.ahead < first.ahead) first = claim
    }
    return first
  }
}

/** The first revision that has not been heard of. The one in the head of a reply may be ahead of what it brings. */
function revisionAfter(changes: readonly Change[]): number {
  return (changes.at(-1)?.pair.modRevision ?? -1) + 1
}

interface NotificationEntry {
  readonly id: string
  readonly status: ClaimStatus
}

/** What mail says. What makes no sense says nothing: news is a hint. */
function notificationsIn(value: Buffer): readonly NotificationEntry[] {
  try {
    const letters = JSON.parse(value.toString()) as readonly Partial<NotificationEntry>[]
    return letters.flatMap(({ id, status }) => {
      const told = fromWireStatus(status)
      return typeof id === 'string' && (told?.state === 'held' || told?.state === 'absent') ? { id, status: told } : []
    })
  } catch {
    return []
  }
}
