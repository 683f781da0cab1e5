/** Writes a key: its document, the markers of its claims, and notifications. */
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
  /** Names this driver on every claim that it keeps. */
  readonly channel: string
  /** Whether notifications for a key were received that can now be removed. */
  readonly takeNotification: (key: string) => boolean
}

/** A transaction, and the leases that the markers of the key are on once it is done. */
export interface KeyWrite {
  readonly transaction: Transaction
  readonly markers: ReadonlyMap<string, number>
  /** Claims whose probes are still unanswered. */
  readonly probed: ReadonlySet<string>
}

/** The value of a marker whose driver answers liveness probes. */
export const answersProbes = '1'

/** For one key in one transaction, beside what its requests put: etcd's default is 128 operations. */
const removalsMax = 30
const notificationsMax = 20
/** A probe that stays is answered by the next renewal. */
const answersMax = 20

export class KeyWriter {
  readonly #setup: KeyWriterSetup
  /** The requests that are carried out, by the claims they are about. */
  readonly #byId: ReadonlyMap<string, Request>
  readonly #leftMs: () => number
  /** The leases for one claim only, by the claim's id. */
  readonly #own = new Map<string, number>()

  constructor(setup: KeyWriterSetup, byId: ReadonlyMap<string, Request>, leftMs: () => number) {
    this.#setup = setup
    this.#byId = byId
    this.#leftMs = leftMs
  }

  /** Whether the renewal of a claim must put its marker again, on another lease or the same. */
  mustMove({ markers, probed }: KeyReading, id: string, ttlMs: number): boolean {
    if (this.#byId.get(id)?.op !== 'renew') return false
    const { leases, claims } = this.#setup
    const lease = markers.get(id)
    if (lease === undefined) return false
    // The probe must be answered before the owner is told that it holds: see `liveness-check.ts`.
    if (probed?.has(id) === true) return true
    if (this.#outlives(id)) return lease !== this.#own.get(id)
    return lease !== leases.idFor(ttlMs) || claims.find(id)?.isUncertain === true
  }

  /** The transaction that brings a key from its reading to what the rule made of it. */
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
      // A marker that is gone never comes back, unless a later claim has the same id.
      if (at === undefined && before.records.get(id)?.enteredAt === record.enteredAt) continue
      const wanted = await this.#leaseFor(swap, record)
      markers.set(id, wanted)
      if (!before.records.has(id)) compare.push(unchangedSince(keyspace.over(id), 0))
      if (at === wanted && !this.mustMove(before, id, record.ttlMs)) continue
      success.push(put(keyspace.marker(key, id), answersProbes, wanted))
      if (at !== undefined) compare.push(exists(keyspace.marker(key, id)))
      if (probed.delete(id) && answers++ < answersMax) success.push(remove(keyspace.probe(key, id)))
    }
    // Of very many markers some go only with their lease: no document names them any more.
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
      // Until the owner learns of the grant it trusts the lease that it had: this one must last as long.
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

  /** Whether the request says that the claim outlives its process, so that nobody may renew it later. */
  #outlives(id: string): boolean {
    const request = this.#byId.get(id)
    return request?.op === 'claim'
      ? request.claim.detached === true
      : request?.op === 'renew' && request.detached === true
  }

  /** An etcd lease has gone: it may be one of those for one claim only. */
  suspectOwn(): void {
    this.#own.clear()
  }

  /** Revokes leases for one claim only that the claim no longer uses. */
  dropUnused(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): void {
    const used = new Set(after.values())
    for (const lease of before.values()) if (!used.has(lease)) this.#setup.leases.drop(lease)
  }

  /** Notifications for claims of other drivers, on a lease: etcd forgets them if the reader never removes them. */
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
    // Without a lease they would stay for ever, and they are only hints.
    if (lease === 0) return []
    const notificationKeys = Array.from(byChannel, ([to, entries]) =>
      put(keyspace.notification(to, key), JSON.stringify(entries), lease),
    )
    return notificationKeys.slice(0, notificationsMax)
  }

  /** The channel of a claim: the driver that sends for a claim keeps it. */
  channelOf(id: string, { channels }: KeyReading): string | undefined {
    return this.#byId.has(id) ? this.#setup.channel : channels.get(id)
  }
}
