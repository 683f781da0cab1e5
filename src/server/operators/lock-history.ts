import type { ChangeDocument } from '../../dashboard/documents.ts'

/** Changes kept of one lock. */
const perLockMax = 50
/** Changes kept of all locks: some ten megabytes at most. */
const changesMax = 20_000
const keptForMs = 3_600_000

interface Entry {
  readonly seenAt: number
  readonly change: ChangeDocument
}

/**
 * What was seen of each lock in the last hour. If there is too much, the namespace with the most of it loses its oldest lock: what happens in
 * one namespace does not push out the history of another.
 */
export class LockHistory {
  /** By namespace and key. The keys whose last change is the oldest come first. */
  readonly #namespaces = new Map<string, { count: number; readonly keys: Map<string, Entry[]> }>()
  #count = 0

  record(wallMs: number, changes: readonly ChangeDocument[]): void {
    for (const change of changes) this.#add({ seenAt: wallMs, change })
    for (const [namespace, { keys }] of this.#namespaces) {
      for (const [key, entries] of keys) {
        if ((entries.at(-1)?.seenAt ?? 0) > wallMs - keptForMs) break
        this.#forget(namespace, key)
      }
    }
    while (this.#count > changesMax) this.#forgetOldestOfLargest()
  }

  /** The newest first. */
  of(namespace: string, key: string): readonly ChangeDocument[] {
    const entries = this.#namespaces.get(namespace)?.keys.get(key) ?? []
    return entries.map(({ change }) => change).toReversed()
  }

  #add(entry: Entry): void {
    const { namespace, key } = entry.change
    const room = this.#namespaces.get(namespace) ?? { count: 0, keys: new Map<string, Entry[]>() }
    this.#namespaces.set(namespace, room)
    const entries = room.keys.get(key) ?? []
    room.keys.delete(key)
    room.keys.set(key, entries)
    entries.push(entry)
    if (entries.length > perLockMax) entries.shift()
    else {
      room.count += 1
      this.#count += 1
    }
  }

  #forgetOldestOfLargest(): void {
    const [largest] = [...this.#namespaces].toSorted(([, left], [, right]) => right.count - left.count)
    const [namespace, room] = largest ?? []
    const [key] = room?.keys.keys() ?? []
    if (namespace !== undefined && key !== undefined) this.#forget(namespace, key)
  }

  #forget(namespace: string, key: string): void {
    const room = this.#namespaces.get(namespace)
    const entries = room?.keys.get(key)
    if (room === undefined || entries === undefined) return
    room.keys.delete(key)
    room.count -= entries.length
    this.#count -= entries.length
    if (room.keys.size === 0) this.#namespaces.delete(namespace)
  }
}
