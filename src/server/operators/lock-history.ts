import type { ChangeDocument } from '../../dashboard/documents.ts'

/** Changes kept of one lock. */
const perLockMax = 50
/** What is kept of all locks, as characters of JSON: names and metadata are as long as strangers make them. */
export const keptSizeMax = 16_000_000
/** What an entry takes beside its texts. */
const entrySize = 500
const keptForMs = 3_600_000

interface Entry {
  readonly seenAt: number
  readonly size: number
  readonly change: ChangeDocument
}

/** What was seen of the locks of one namespace. */
interface NamespaceHistory {
  size: number
  readonly keys: Map<string, Entry[]>
}

/**
 * What was seen of each lock in the last hour. If there is too much, the namespace with the most of it loses its oldest locks: what happens in
 * one namespace does not push out the history of another.
 */
export class LockHistory {
  /** By namespace and key. The keys whose last change is the oldest come first. */
  readonly #namespaces = new Map<string, NamespaceHistory>()
  #size = 0

  record(wallMs: number, changes: readonly ChangeDocument[]): void {
    for (const change of changes) {
      this.#add({ seenAt: wallMs, change, size: entrySize + JSON.stringify(change).length })
    }
    for (const [namespace, { keys }] of this.#namespaces) {
      for (const [key, entries] of keys) {
        if ((entries.at(-1)?.seenAt ?? 0) > wallMs - keptForMs) break
        this.#forget(namespace, key)
      }
    }
    this.#makeRoom()
  }

  /** The newest first. */
  of(namespace: string, key: string): readonly ChangeDocument[] {
    const entries = this.#namespaces.get(namespace)?.keys.get(key) ?? []
    return entries.map(({ change }) => change).toReversed()
  }

  #add(entry: Entry): void {
    const { namespace, key } = entry.change
    const room = this.#namespaces.get(namespace) ?? { size: 0, keys: new Map<string, Entry[]>() }
    this.#namespaces.set(namespace, room)
    const entries = room.keys.get(key) ?? []
    room.keys.delete(key)
    room.keys.set(key, entries)
    entries.push(entry)
    this.#resize(room, entry.size)
    if (entries.length > perLockMax) this.#resize(room, -(entries.shift()?.size ?? 0))
  }

  /** Takes from the largest namespaces, down to half of the largest at a time: sorting them for each lock would take seconds. */
  #makeRoom(): void {
    while (this.#size > keptSizeMax) {
      const largestFirst = [...this.#namespaces].toSorted(([, left], [, right]) => right.size - left.size)
      const least = (largestFirst[0]?.[1].size ?? 0) / 2
      for (const [namespace, room] of largestFirst) {
        for (const key of room.keys.keys()) {
          if (this.#size <= keptSizeMax) return
          if (room.size < least) break
          this.#forget(namespace, key)
        }
      }
    }
  }

  #forget(namespace: string, key: string): void {
    const room = this.#namespaces.get(namespace)
    const entries = room?.keys.get(key)
    if (room === undefined || entries === undefined) return
    room.keys.delete(key)
    this.#resize(room, -entries.reduce((sum, { size }) => sum + size, 0))
    if (room.keys.size === 0) this.#namespaces.delete(namespace)
  }

  #resize(room: NamespaceHistory, by: number): void {
    room.size += by
    this.#size += by
  }
}
