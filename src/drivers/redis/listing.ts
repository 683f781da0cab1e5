/**
 * `list` over SCAN. A page ends where the cursor stands, with the names it found too many, so a listing as a whole shows
 * every key that was there from its beginning to its end at least once, as SCAN promises. A key may show twice if Redis
 * resizes its table meanwhile, and one that comes or goes meanwhile may show or not.
 */
import type { KeyPage, ListedClaim, ListedKey, ListQuery } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { pageLimit } from '../kit/paging.ts'
import { wholeRunner } from '../../core/rule/short-runner.ts'
import { isHalfMoved } from './faults.ts'
import { hashTagOf } from './hash-tags.ts'
import type { Keyspace } from './keyspace.ts'
import type { RedisTransport, RedisServer } from './transport.ts'
import { listScript, run } from './script.ts'
import { foreign } from './decoding.ts'

/** Where a page ended: the server, its cursor, and names found but not shown yet. */
type Bookmark = readonly [server: string, cursor: string, found: readonly string[]]

/** How many keys of Redis to look at in one step. */
const scanCount = 500
/** Names that a page has found too many are in its bookmark, and that may have to fit into a URL. */
const spareNamesMax = 3

export interface Lister {
  readonly transport: RedisTransport
  readonly keyspace: Keyspace
  readonly clock: (() => number) | undefined
  /** The longest that one question to a server may take. */
  readonly stepMs: number
}

export async function listPage(lister: Lister, query: ListQuery): Promise<KeyPage> {
  if (query.key !== undefined) {
    const { now, keys } = await read(lister, [lister.keyspace.record(query.key)])
    if (keys.some(({ unreadable }) => unreadable)) throw foreign()
    return { now, keys: shown(keys) }
  }
  const limit = pageLimit(query)
  const walk = await Walk.begin(lister, query)
  const page: ListedKey[] = []
  let now: number | undefined
  // One more than fits, to know whether there is another page.
  while (page.length <= limit) {
    const names = await walk.next(limit + 1 - page.length)
    if (names.length === 0) return { now: now ?? (await read(lister, [])).now, keys: page }
    const batch = await read(lister, names)
    now = batch.now
    // A record that cannot be read must not hide all the others.
    page.push(...shown(batch.keys))
  }
  const beyond = page.pop() as ListedKey
  return { now: now as number, keys: page, next: walk.bookmark(lister.keyspace.record(beyond.key)) }
}

/** A walk over the names of all records, server by server. */
class Walk {
  readonly #servers: readonly RedisServer[]
  readonly #keyspace: Keyspace
  readonly #prefix: string
  readonly #stepMs: number
  #at = 0
  #cursor = '0'
  /** This server's keys have been seen to the end. */
  #done = false
  #found: string[] = []

  private constructor(servers: readonly RedisServer[], { keyspace, stepMs }: Lister, prefix: string) {
    this.#servers = servers
    this.#keyspace = keyspace
    this.#prefix = prefix
    this.#stepMs = stepMs
  }

  static async begin(lister: Lister, query: ListQuery): Promise<Walk> {
    const servers = await lister.transport.servers()
    const inOrder = servers.toSorted((one, other) => (one.name < other.name ? -1 : 1))
    const walk = new Walk(inOrder, lister, query.prefix ?? '')
    if (query.after !== undefined) walk.#resume(query.after)
    return walk
  }

  /** Up to `count` more names; none at the end. */
  async next(count: number): Promise<readonly string[]> {
    while (this.#found.length === 0 && this.#at < this.#servers.length) {
      if (this.#done) {
        this.#at += 1
        this.#cursor = '0'
        this.#done = false
      } else {
        await this.#scan(this.#servers[this.#at] as RedisServer, count)
      }
    }
    return this.#found.splice(0, count)
  }

  /** Where to go on, beginning with a name that was taken and not shown. */
  bookmark(first: string): string {
    const cursor = this.#done ? 'end' : this.#cursor
    const mark: Bookmark = [this.#servers[this.#at]?.name ?? '', cursor, [first, ...this.#found]]
    return JSON.stringify(mark)
  }

  /** A step that finds much more than there is room for is taken again, a smaller one. */
  async #scan(server: RedisServer, room: number): Promise<void> {
    let size = scanCount
    let [cursor, names] = await this.#look(server, size)
    while (names.length > room + spareNamesMax && size > 1) {
      size = Math.min(room, size >> 1)
      ;[cursor, names] = await this.#look(server, size)
    }
    this.#cursor = cursor
    this.#done = this.#cursor === '0'
    this.#found.push(...names)
  }

  async #look(server: RedisServer, size: number): Promise<readonly [cursor: string, names: readonly string[]]> {
    const args = [this.#cursor, 'MATCH', this.#keyspace.pattern(this.#prefix), 'COUNT', String(size)]
    const [cursor, names] = (await server.call('SCAN', args, this.#stepMs)) as [string, string[]]
    // Within one step SCAN may name a key twice.
    return [cursor, [...new Set(names)]]
  }

  #resume(after: string): void {
    const [name, cursor, found] = parseBookmark(after)
    // A server that has left the cluster has given its keys to others: go on with the next name.
    const at = this.#servers.findIndex((server) => server.name >= name)
    this.#at = at < 0 ? this.#servers.length : at
    // A bookmark comes back from whoever lists: it is not to show more than its prefix does.
    this.#found = found.filter((each) => this.#keyspace.isRecord(each, this.#prefix))
    if (this.#servers[this.#at]?.name !== name) return
    this.#done = cursor === 'end'
    this.#cursor = this.#done ? '0' : cursor
  }
}

function parseBookmark(after: string): Bookmark {
  try {
    const [name, cursor, found] = JSON.parse(after) as Bookmark
    if (typeof name === 'string' && /^(\d+|end)$/.test(cursor) && Array.isArray(found)) return [name, cursor, found]
  } catch {
    // Said below.
  }
  throw new LeaseholdError('INVALID', '`after` is not the `next` of a page of this store.')
}

interface KeysRead {
  readonly now: number
  readonly keys: readonly KeyRead[]
}

interface KeyRead extends ListedKey {
  readonly unreadable: boolean
}

function shown(keys: readonly KeyRead[]): readonly ListedKey[] {
  return keys.filter(({ claims }) => claims.length > 0).map(({ key, claims }) => ({ key, claims }))
}

/** The keys with these records, in one call; on a cluster one a hash tag. */
async function read(lister: Lister, names: readonly string[]): Promise<KeysRead> {
  const { transport, keyspace } = lister
  const groups = transport.cluster && names.length > 0 ? byHashTag(names, keyspace) : [names]
  let now = 0
  const found = new Map<string, KeyRead>()
  for (const group of groups) {
    const part = await readGroup(lister, group)
    now = part.now
    for (const [index, name] of group.entries()) found.set(name, part.keys[index] as KeyRead)
  }
  return { now, keys: names.map((name) => found.get(name) as KeyRead) }
}

/** Keys of one hash tag. Those that a cluster is moving from one node to another are read one by one. */
async function readGroup(lister: Lister, names: readonly string[]): Promise<KeysRead> {
  try {
    return await readCall(lister, names)
  } catch (error) {
    if (!isHalfMoved(error)) throw error
    const parts = await Promise.all(names.map((name) => readCall(lister, [name])))
    return { now: Math.max(...parts.map(({ now }) => now)), keys: parts.flatMap(({ keys }) => keys) }
  }
}

async function readCall({ transport, keyspace, clock, stepMs }: Lister, names: readonly string[]): Promise<KeysRead> {
  const values = [String(keyspace.tagEnd), '', clock === undefined ? '' : String(clock()), '0']
  const answer = (await run(transport, listScript, names, values, stepMs)) as [string, ...(string[][] | string)[]]
  const [time, ...answers] = answer
  const keys = answers.map((claims, index) => {
    const key = keyspace.keyOf(names[index] as string)
    if (typeof claims === 'string') return { key, claims: [], unreadable: true }
    try {
      return { key, claims: claims.map((texts) => listedClaim(texts)), unreadable: false }
    } catch {
      // A runner that is no JSON, or none of ours.
      return { key, claims: [], unreadable: true }
    }
  })
  return { now: Number(time), keys }
}

function byHashTag(names: readonly string[], keyspace: Keyspace): readonly (readonly string[])[] {
  const groups = new Map<string, string[]>()
  for (const name of names) {
    const tag = hashTagOf(keyspace.keyOf(name))
    const group = groups.get(tag)
    if (group === undefined) groups.set(tag, [name])
    else group.push(name)
  }
  return [...groups.values()]
}

/** A claim out of the texts that `list.lua` answers with, in the order of `claim-record.lua`. */
function listedClaim(texts: string | readonly string[]): ListedClaim {
  const [id, , runner, ttlMs, expiresAt, lastHeartbeat, renewalCount, enteredAt, acquiredAt, fence] = texts
  const [priority, , shared, limit, start, end, replaces, , , graceMs, maxHoldMs, detached, leaving] = texts.slice(11)
  return {
    id: id as string,
    state: fence === '0' ? 'waiting' : 'held',
    mode: shared === 'true' ? 'shared' : 'exclusive',
    limit: optional(limit),
    range: start === '' ? undefined : { start: Number(start), end: Number(end) },
    priority: Number(priority),
    fence: Number(fence),
    ttlMs: Number(ttlMs),
    graceMs: Number(graceMs),
    maxHoldMs: optional(maxHoldMs),
    leaving: leaving === '' ? undefined : leaving,
    detached: detached === 'true',
    converting: fence === '0' && replaces !== '',
    enteredAt: Number(enteredAt),
    acquiredAt: Number(acquiredAt),
    lastHeartbeat: Number(lastHeartbeat),
    renewalCount: Number(renewalCount),
    expiresAt: Number(expiresAt),
    runner: wholeRunner(JSON.parse(runner as string)),
  }
}

function optional(text: string | undefined): number | undefined {
  return text === '' || text === undefined ? undefined : Number(text)
}
