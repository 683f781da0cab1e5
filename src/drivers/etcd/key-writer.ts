/** What is written of a key: its document, the markers of its claims, and mail. */
import type { Swap } from '../document/document-swaps.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { KeyDocument } from '../document/key-document.ts'
import { encodeEtcdDocument } from './document.ts'
import type { GarbageLease } from './leases/garbage-lease.ts'
import type { EtcdKeyspace } from './keyspace.ts'
import type { Leases } from './leases/leases.ts'
import { exists, put, remove, unchangedSince, type TxnOperation, type Transaction } from './rpc/messages.ts'
import type { ClaimKeeper } from './leases/claim-keeper.ts'
import { readingOf, type KeyReading } from './key-reading.ts'

export interface KeyWriterSetup {
  readonly keyspace: EtcdKeyspace
  readonly leases: Leases
  readonly garbage: GarbageLease
  readonly claims: ClaimKeeper
  /** Our name on every claim we look after. */
  readonly channel: string
  /** Whether news for a key has come and was read: it need not lie around any longer. */
  readonly takeNotification: (key: string) => boolean
}

/** A transaction, and the leases that the markers of the key are on once it is done. */
export interface KeyWrite {
  readonly transaction: Transaction
  readonly markers: ReadonlyMap<string, number>
  /** Claims whose owners have yet to answer. */
  readonly probed: ReadonlySet<string>
}

/** What a marker says whose driver answers when it is asked for a sign of life. */
export const answersProbes = '1'

/** For one key in one transaction, beside what its requests put. etcd does 128 things in one by default. */
const removalsMax = 30
const notificationsMax = 20
/** A question that stays is answered once more by the next renewal. */
const answersMax = 20

export class KeyWriter {
  readonly #setup: KeyWriterSetup
  /** The requests that are carried out, by the claims they are about. */
  readonly #byId: ReadonlyMap<string, Request>
  readonly #leftMs: () => number
  /** The leases of their own that claims have been given, by their ids. */
  readonly #own = new Map<string, number>()

  constructor(setup: KeyWriterSetup, byId: ReadonlyMap<string, Request>, leftMs: () => number) {
    this.#setup = setup
    this.#byId = byId
    this.#leftMs = leftMs
  }

  /** Whether the marker of a claim that we are asked to renew is to be put on another lease, or once more. */
  mustMove({ markers, probed }: KeyReading, id: string, ttlMs: number): boolean {
    if (this.#byId.get(id)?.op !== 'renew') return false
    const { leases, claims } = this.#setup
    const lease = markers.get(id)
    if (lease === undefined) return false
    // Nobody is told that the claim is held before the question is answered: see `sign-of-life.ts`.
    if (probed?.has(id) === true) return true
    if (this.#outlives(id)) return lease !== this.#own.get(id)
    return lease !== leases.idFor(ttlMs) || claims.find(id)?.isUncertain === true
  }

  /** The transaction that brings a key from what was read to what the rule made of it. */
  async transaction(swap: Swap<KeyReading>): Promise<KeyWrite> {
    const { keyspace, garbage, channel, takeNotification } = this.#setup
    const { key, document, revision: before } = swap
    const compare = [unchangedSince(keyspace.document(key), before.revision)]
    const markers = new Map<string, number>()
    const probed = new Set(before.probed)
    let answers = 0
    const success: TxnOperation[] = []
    for (const record of document.claims) {
      const { id } = record.claim
      const at = before.markers.get(id)
      // One that is gone never comes back, unless as another that came later under the same name.
      if (at === undefined && before.records.get(id)?.enteredAt === record.enteredAt) continue
      const wanted = await this.#leaseFor(swap, record)
      markers.set(id, wanted)
      if (!before.records.has(id)) compare.push(unchangedSince(keyspace.over(id), 0))
      if (at === wanted && !this.mustMove(before, id, record.ttlMs)) continue
      success.push(put(keyspace.marker(key, id), answersProbes, wanted))
      if (at !== undefined) compare.push(exists(keyspace.marker(key, id)))
      if (probed.delete(id) && answers++ < answersMax) success.push(remove(keyspace.probe(key, id)))
    }
    // Of very many, some go only with their lease: nobody speaks of them any more.
    const gone = Array.from(before.markers.keys()).filter((id) => !markers.has(id))
    for (const id of gone.slice(0, removalsMax)) success.push(remove(keyspace.marker(key, id)))
    success.push(...(await this.#notification(swap)))
    if (takeNotification(key)) success.push(remove(keyspace.notification(channel, key)))
    const lease = document.claims.length === 0 ? await garbage.leaseFor(document.lastFence, this.#leftMs()) : 0
    const text = encodeEtcdDocument(document, (id) => this.channelOf(id, before))
    success.push(put(keyspace.document(key), text, lease))
    return { transaction: { compare, success, failure: readingOf(keyspace, key) }, markers, probed }
  }

  /** The lease that the marker of a claim is to be on. */
  async #leaseFor(
    { revision: before, document }: Swap<KeyReading>,
    record: KeyDocument['claims'][number],
  ): Promise<number> {
    const { leases } = this.#setup
    const { id, replaces, wait } = record.claim
    const at = before.markers.get(id)
    const state = before.records.get(id)?.state
    if (replaces !== undefined && wait && record.state === 'held' && state !== 'held') {
      // Until its owner hears of this it trusts the lease that it had, so this is to last as long as that.
      const replaced = before.markers.get(replaces)
      const isGone = document.claims.every(({ claim }) => claim.id !== replaces)
      if (replaced !== undefined && isGone) return replaced
    }
    if (at !== undefined && !this.mustMove(before, id, record.ttlMs)) return at
    if (this.#outlives(id)) {
      const own = this.#own.get(id) ?? (await leases.own(record.ttlMs, this.#leftMs()))
      this.#own.set(id, own)
      return own
    }
    await leases.secure(record.ttlMs, this.#leftMs())
    return leases.idFor(record.ttlMs)
  }

  /** Whether a claim is to outlive its process, by the request: nobody may renew it after that. */
  #outlives(id: string): boolean {
    const request = this.#byId.get(id)
    return request?.op === 'claim'
      ? request.claim.detached === true
      : request?.op === 'renew' && request.detached === true
  }

  /** A lease of etcd's has gone: it may be one of those. */
  suspectOwn(): void {
    this.#own.clear()
  }

  /** Lets go of leases that were for one claim only, which is over or on another lease by now. */
  dropUnused(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): void {
    const used = new Set(after.values())
    for (const lease of before.values()) if (!used.has(lease)) this.#setup.leases.drop(lease)
  }

  /** News for those that other drivers look after, where etcd forgets it: its reader need not come to remove it. */
  async #notification({ key, notifications, revision: before }: Swap<KeyReading>): Promise<TxnOperation[]> {
    const { keyspace, channel, garbage } = this.#setup
    const byChannel = new Map<string, { id: string; status: ClaimStatus }[]>()
    for (const { record, status } of notifications) {
      const { id } = record.claim
      const to = this.channelOf(id, before)
      if (to === undefined || to === channel || !before.markers.has(id)) continue
      const entries = byChannel.get(to)
      if (entries === undefined) byChannel.set(to, [{ id, status }])
      else entries.push({ id, status })
    }
    const lease = byChannel.size === 0 ? 0 : await garbage.leaseFor(0, this.#leftMs())
    // Without one it would lie around for ever, and it is only a hint.
    if (lease === 0) return []
    const notificationKeys = Array.from(byChannel, ([to, entries]) =>
      put(keyspace.notification(to, key), JSON.stringify(entries), lease),
    )
    return notificationKeys.slice(0, notificationsMax)
  }

  /** Whoever sends for a claim looks after it. */
  channelOf(id: string, { channels }: KeyReading): string | undefined {
    return this.#byId.has(id) ? this.#setup.channel : channels.get(id)
  }
}
