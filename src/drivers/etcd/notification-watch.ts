/**
 * Watches what other drivers do. A notification says what became of a claim; a marker that goes away makes the first waiter
 * behind it poll. One stream carries all watches, and whatever it misses costs only time.
 */
import type { ClaimStatus } from '../../core/contract/driver.ts'
import type { Backoff } from '../../core/time/backoff.ts'
import { Reconnector } from '../kit/reconnector.ts'
import type { EtcdKeyspace } from './keyspace.ts'
import { fromWireStatus } from '../../core/wire/replies.ts'
import type { EtcdClient } from './rpc/client.ts'
import { calls, watchReply, unwatchRequest, watchRequest, type WatchEvent, type WatchReply } from './rpc/messages.ts'
import type { KeptClaim, ClaimKeeper } from './leases/claim-keeper.ts'
import type { MessageStream, Session } from './rpc/session.ts'

export interface NotificationWatchSetup {
  readonly client: EtcdClient
  readonly keyspace: EtcdKeyspace
  readonly channel: string
  readonly claims: ClaimKeeper
  readonly onNotification: (key: string, id: string, status: ClaimStatus) => void
  /** Something happened to a claim of ours that its owner may not know. */
  readonly poll: (key: string, id: string) => void
  /** Notifications may have been lost, of any claim of ours that waits. */
  readonly onGap: () => void
}

/** A key that claims of ours wait for. */
interface Followed {
  readonly watch: number
  /** The first revision that has not been received. */
  from: number
  timer: NodeJS.Timeout | undefined
}

const reconnecting: Backoff = { attempts: Infinity, minMs: 50, maxMs: 5000, factor: 2, jitter: 0.2 }
/** Well above the 5 s of `--grpc-keepalive-min-time`: etcd ends a connection, with all its calls, for less. */
const pingEveryMs = 10_000
const pingAnswerMs = 4500
/** A claim that is let in is notified. So a waiter delays its poll a little after a marker went: it need not have expired. */
const pollAfterMs = 5
const pollPerAheadMs = 25
const pollDelayMaxMs = 1000
/** The number of the watch for notifications. */
const notificationWatch = 1

export class NotificationWatch {
  readonly #setup: NotificationWatchSetup
  readonly #keys = new Map<string, Followed>()
  readonly #keyOf = new Map<number, string>()
  readonly #reconnector = new Reconnector({ backoff: reconnecting, attempt: () => this.#open() })
  /** Keys with notifications that were received and not yet removed. */
  readonly #notificationKeys = new Set<string>()
  #notificationsFrom = 0
  #watches = notificationWatch
  #stream: MessageStream | undefined
  #session: Session | undefined
  #started = false
  #closed = false
  #pings: NodeJS.Timeout | undefined

  constructor(setup: NotificationWatchSetup) {
    this.#setup = setup
  }

  /** Begins to listen, if it has not, for notifications after this revision of the store. */
  start(revision: number): void {
    if (this.#started || this.#closed) return
    this.#started = true
    this.#notificationsFrom = revision + 1
    this.#open()
  }

  /** Listens for markers of this key that go away after this revision. */
  follow(key: string, revision: number): void {
    if (this.#closed || this.#keys.has(key)) return
    const followed: Followed = { watch: (this.#watches += 1), from: revision + 1, timer: undefined }
    this.#keys.set(key, followed)
    this.#keyOf.set(followed.watch, key)
    this.#poll(key, followed)
  }

  /** No claim of ours waits for the key any more. */
  unfollow(key: string): void {
    const followed = this.#keys.get(key)
    if (followed === undefined) return
    clearTimeout(followed.timer)
    this.#keys.delete(key)
    this.#keyOf.delete(followed.watch)
    this.#stream?.send(unwatchRequest(followed.watch))
  }

  /** Whether notifications for a key were received that the caller must now remove. */
  takeNotification(key: string): boolean {
    return this.#notificationKeys.delete(key)
  }

  close(): void {
    this.#closed = true
    this.#reconnector.close()
    clearInterval(this.#pings)
    for (const { timer } of this.#keys.values()) clearTimeout(timer)
    this.#keys.clear()
    this.#stream?.close()
    this.#stream = undefined
  }

  // ---- the stream

  #open(): void {
    this.#setup.client.session().then(
      (session) => this.#listen(session),
      () => this.#openLater(),
    )
  }

  #listen(session: Session): void {
    if (this.#closed) return
    const { client, keyspace, channel } = this.#setup
    if (session !== this.#session) this.#watchFromAtMost(client.revision + 1)
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
    for (const [key, followed] of this.#keys) this.#poll(key, followed)
    clearInterval(this.#pings)
    this.#pings = setInterval(() => void this.#ping(session), pingEveryMs).unref()
  }

  /** A store that was restored counts its revisions from an earlier one again: a watch from a later one would hear nothing. */
  #watchFromAtMost(revision: number): void {
    this.#notificationsFrom = Math.min(this.#notificationsFrom, revision)
    for (const followed of this.#keys.values()) followed.from = Math.min(followed.from, revision)
  }

  #openLater(): void {
    this.#stream = undefined
    clearInterval(this.#pings)
    this.#reconnector.failed()
  }

  /** A stream over a connection that died silently would be silent for ever. */
  async #ping(session: Session): Promise<void> {
    if ((await session.ping(pingAnswerMs)) || this.#closed || this.#session !== session) return
    this.#setup.client.drop(session)
    this.#stream?.close()
  }

  #poll(key: string, { watch, from }: Followed): void {
    const { keyspace } = this.#setup
    this.#stream?.send(watchRequest({ watch, ...keyspace.markers(key), from, removalsOnly: true }))
  }

  // ---- replies

  #take(data: Buffer): void {
    let reply: WatchReply
    try {
      reply = watchReply.read(data)
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
    // We canceled this watch ourselves. A watch that was refused has no number.
    if (watch > notificationWatch && !this.#keyOf.has(watch)) return
    this.#stream?.close()
    if (compactRevision === 0) return
    // etcd has forgotten what came before: any claim may have missed something.
    this.#notificationsFrom = Math.max(this.#notificationsFrom, compactRevision)
    for (const followed of this.#keys.values()) followed.from = Math.max(followed.from, compactRevision)
    for (const { key, id, state } of this.#setup.claims) if (state !== 'waiting') this.#setup.poll(key, id)
    this.#setup.onGap()
  }

  #readNotification({ created, events }: WatchReply): void {
    if (created) {
      const wasInterrupted = this.#reconnector.failures > 0
      this.#reconnector.succeeded()
      if (wasInterrupted) this.#setup.onGap()
    }
    this.#notificationsFrom = Math.max(this.#notificationsFrom, revisionAfter(events))
    for (const event of events) if (!event.isRemoval) this.#deliver(event)
  }

  #deliver({ pair }: WatchEvent): void {
    const { keyspace, channel, claims, onNotification } = this.#setup
    const key = keyspace.keyOfNotification(channel, pair.key)
    for (const { id, status } of notificationsIn(pair.value)) {
      if (claims.find(id) !== undefined) this.#notificationKeys.add(key)
      onNotification(key, id, status)
    }
  }

  #readEnds({ watch, events }: WatchReply): void {
    const key = this.#keyOf.get(watch)
    const followed = key === undefined ? undefined : this.#keys.get(key)
    if (key === undefined || followed === undefined || events.length === 0) return
    followed.from = Math.max(followed.from, revisionAfter(events))
    for (const { isRemoval, pair } of events) {
      const { id } = this.#setup.keyspace.claimOfMarker(pair.key)
      // The marker of a claim of ours: its owner may not know.
      if (isRemoval && this.#setup.claims.find(id) !== undefined) this.#setup.poll(key, id)
    }
    const first = this.#firstOf(key)
    if (first === undefined) return this.unfollow(key)
    first.ahead = Math.max(0, first.ahead - events.length)
    followed.timer ??= setTimeout(
      () => this.#pollFirst(key, followed),
      Math.min(pollDelayMaxMs, pollAfterMs + pollPerAheadMs * first.ahead),
    ).unref()
  }

  /** Polls our first waiter: that moves the whole queue. */
  #pollFirst(key: string, followed: Followed): void {
    followed.timer = undefined
    const first = this.#firstOf(key)
    if (first !== undefined) this.#setup.poll(key, first.id)
  }

  #firstOf(key: string): KeptClaim | undefined {
    let first: KeptClaim | undefined
    for (const claim of this.#setup.claims.waitingFor(key)) {
      if (first === undefined || claim.ahead < first.ahead) first = claim
    }
    return first
  }
}

/** The first revision that has not been received. The one in a reply's header may be ahead of its events. */
function revisionAfter(events: readonly WatchEvent[]): number {
  return (events.at(-1)?.pair.modRevision ?? -1) + 1
}

interface NotificationEntry {
  readonly id: string
  readonly status: ClaimStatus
}

/** The notifications in a value. What cannot be read is left out: they are hints. */
function notificationsIn(value: Buffer): readonly NotificationEntry[] {
  try {
    const entries = JSON.parse(value.toString()) as readonly Partial<NotificationEntry>[]
    return entries.flatMap(({ id, status }) => {
      const decoded = fromWireStatus(status)
      return typeof id === 'string' && (decoded?.state === 'held' || decoded?.state === 'absent')
        ? { id, status: decoded }
        : []
    })
  } catch {
    return []
  }
}
