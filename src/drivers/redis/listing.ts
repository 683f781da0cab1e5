/**
 * `list` over SCAN. The `next` of a page holds SCAN's cursor and the names found beyond the page. So a whole listing shows
 * each key that existed from its beginning to its end at least once, as SCAN promises: twice if Redis resizes its table
 * meanwhile. A key that is created or deleted meanwhile may or may not show.
 */
import type { KeyPage, ListedClaim, ListedKey, ListQuery } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { claimsLimit, pageLimit, PageFill } from '../kit/paging.ts'
import { wholeRunner } from '../../core/rule/short-runner.ts'
import { isSlotMigrating } from './errors.ts'
import { hashTagOf } from './hash-tags.ts'
import type { RedisKeyspace } from './keyspace.ts'
import type { RedisTransport, RedisServer } from './transport.ts'
import { listScript, runScript } from './script.ts'
import { foreignRecord } from './decoding.ts'

/** Where a page ended: the server, its cursor, and the names found but not shown yet. */
type Bookmark = readonly [server: string, cursor: string, found: readonly string[]]

/** How many keys of Redis one step of SCAN goes over. */
const scanCount = 500
/** The most names found beyond a page: its bookmark holds them, and may have to fit into a URL. */
const spareNamesMax = 3

/** What a listing reads from. */
export interface Lister {
  readonly transport: RedisTransport
  readonly keyspace: RedisKeyspace
  readonly clock: (() => number) | undefined
  /** The timeout of one call to a server. */
  readonly stepMs: number
}

/** The most claims that one call of the script reads: Redis does nothing else meanwhile. */
const claimsPerCall = 1000
/** Claims of a key that are shown on a page that has enough of them. Their number is shown in any case. */
const claimsOnFullPage = 1

/** One page of the keys that have claims, or the one key of the query. */
export async function redisPage(lister: Lister, query: ListQuery): Promise<KeyPage> {
  const claims = { claims: claimsLimit(query), known: query.known }
  if (query.key !== undefined) {
    const { now, keys } = await readKeys(lister, [lister.keyspace.record(query.key)], () => claims)
    if (keys.some(({ unreadable }) => unreadable)) throw foreignRecord()
    return { now, keys: shown(keys) }
  }
  const limit = pageLimit(query)
  const scan = await RecordScan.begin(lister, query)
  const page: ListedKey[] = []
  const fill = new PageFill()
  // A page cannot end early, since its bookmark holds few names: once it has enough claims, it shows the fewest of a key.
  const wanted = (): ClaimsWanted => (fill.isFull ? { ...claims, claims: claimsOnFullPage } : claims)
  let now: number | undefined
  // Reads one key more than fits, to know whether there is another page.
  while (page.length <= limit) {
    const names = await scan.next(limit + 1 - page.length)
    if (names.length === 0) return { now: now ?? (await readKeys(lister, [], wanted)).now, keys: page }
    const batch = await readKeys(lister, names, wanted, fill)
    now = batch.now
    // Keys that cannot be read are left out: they must not hide all the others.
    page.push(...shown(batch.keys))
  }
  const beyond = page.pop() as ListedKey
  return { now: now as number, keys: page, next: scan.bookmark(lister.keyspace.record(beyond.key)) }
}

/** Goes over the names of all records, server by server. */
class RecordScan {
  readonly #servers: readonly RedisServer[]
  readonly #keyspace: RedisKeyspace
  readonly #prefix: string
  readonly #stepMs: number
  #at = 0
  #cursor = '0'
  /** Whether SCAN has gone over all keys of this server. */
  #done = false
  #found: string[] = []

  private constructor(servers: readonly RedisServer[], { keyspace, stepMs }: Lister, prefix: string) {
    this.#servers = servers
    this.#keyspace = keyspace
    this.#prefix = prefix
    this.#stepMs = stepMs
  }

  static async begin(lister: Lister, query: ListQuery): Promise<RecordScan> {
    const servers = await lister.transport.servers()
    const inOrder = servers.toSorted((left, right) => (left.name < right.name ? -1 : 1))
    const scan = new RecordScan(inOrder, lister, query.prefix ?? '')
    if (query.after !== undefined) scan.#resume(query.after)
    return scan
  }

  /** At least one and up to `count` more names; none at the end. */
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

  /** Where the next page begins: with `first`, a name that was read but did not fit. */
  bookmark(first: string): string {
    const cursor = this.#done ? 'end' : this.#cursor
    const bookmark: Bookmark = [this.#servers[this.#at]?.name ?? '', cursor, [first, ...this.#found]]
    return JSON.stringify(bookmark)
  }

  /** A step that finds many more names than there is room for is repeated with a smaller count. */
  async #scan(server: RedisServer, room: number): Promise<void> {
    let size = scanCount
    let [cursor, names] = await this.#step(server, size)
    while (names.length > room + spareNamesMax && size > 1) {
      size = Math.min(room, size >> 1)
      ;[cursor, names] = await this.#step(server, size)
    }
    this.#cursor = cursor
    this.#done = this.#cursor === '0'
    this.#found.push(...names)
  }

  async #step(server: RedisServer, size: number): Promise<readonly [cursor: string, names: readonly string[]]> {
    const args = [this.#cursor, 'MATCH', this.#keyspace.pattern(this.#prefix), 'COUNT', String(size)]
    const [cursor, names] = (await server.call('SCAN', args, this.#stepMs)) as [string, string[]]
    // One step of SCAN may name a key twice.
    return [cursor, [...new Set(names)]]
  }

  #resume(after: string): void {
    const [name, cursor, found] = parseBookmark(after)
    // If the server has left the cluster, others have its keys: go on with the next server by name.
    const at = this.#servers.findIndex((server) => server.name >= name)
    this.#at = at < 0 ? this.#servers.length : at
    // The caller may have changed the bookmark: names outside of the prefix must not show.
    this.#found = found.filter((record) => this.#keyspace.isRecord(record, this.#prefix))
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
    // Not JSON: refused below.
  }
  throw new LeaseholdError('INVALID', '`after` is not the `next` of a page of this store.')
}

/** How many claims of a key to read, and which in any case. */
interface ClaimsWanted {
  readonly claims: number
  readonly known: string | undefined
}

interface KeysRead {
  readonly now: number
  /** As many as one call could read: the first ones, or all. */
  readonly keys: readonly KeyRead[]
}

interface KeyRead extends ListedKey {
  readonly unreadable: boolean
}

function shown(keys: readonly KeyRead[]): readonly ListedKey[] {
  return keys
    .filter(({ claims }) => claims.length > 0)
    .map(({ key, claims, held = 0, waiting = 0 }) =>
      held + waiting > claims.length ? { key, claims, held, waiting } : { key, claims },
    )
}

/** Reads the keys of these records in as few calls as may be; on a cluster, in one call a hash tag or more. */
async function readKeys(
  lister: Lister,
  names: readonly string[],
  wanted: () => ClaimsWanted,
  fill = new PageFill(),
): Promise<KeysRead> {
  const { transport, keyspace } = lister
  if (names.length === 0) return readCall(lister, names, wanted())
  const groups = transport.cluster ? byHashTag(names, keyspace) : [names]
  let now = 0
  const found = new Map<string, KeyRead>()
  for (const group of groups) {
    for (let from = 0; from < group.length;) {
      const part = await readGroup(lister, group.slice(from), wanted())
      now = part.now
      for (const [index, read] of part.keys.entries()) {
        found.set(group[from + index] as string, read)
        fill.add(read)
      }
      from += part.keys.length
    }
  }
  return { now, keys: names.map((name) => found.get(name) as KeyRead) }
}

/** Reads keys of one hash tag: one by one, if their slot is being moved to another node. */
async function readGroup(lister: Lister, names: readonly string[], wanted: ClaimsWanted): Promise<KeysRead> {
  try {
    return await readCall(lister, names, wanted)
  } catch (error) {
    if (!isSlotMigrating(error)) throw error
    return readCall(lister, names.slice(0, 1), wanted)
  }
}

type KeyAnswer = readonly [held: number, waiting: number, claims: readonly (readonly string[])[]] | string

async function readCall(lister: Lister, names: readonly string[], wanted: ClaimsWanted): Promise<KeysRead> {
  const { transport, keyspace, clock, stepMs } = lister
  const call = [String(keyspace.tagEnd), '', clock === undefined ? '' : String(clock()), '0']
  const values = [...call, String(wanted.claims), String(claimsPerCall), wanted.known ?? '']
  const [time, ...answers] = (await runScript(transport, listScript, names, values, stepMs)) as [string, ...KeyAnswer[]]
  const keys: KeyRead[] = []
  for (const [index, answer] of answers.entries()) {
    if (answer === 'unread') break
    keys.push(keyRead(keyspace.keyOf(names[index] as string), answer))
  }
  return { now: Number(time), keys }
}

function keyRead(key: string, answer: KeyAnswer): KeyRead {
  if (typeof answer !== 'string') {
    const [held, waiting, claims] = answer
    try {
      return { key, claims: claims.map((texts) => listedClaim(texts)), held, waiting, unreadable: false }
    } catch {
      // The runner is not JSON, or not a runner of Leasehold.
    }
  }
  return { key, claims: [], unreadable: true }
}

function byHashTag(names: readonly string[], keyspace: RedisKeyspace): readonly (readonly string[])[] {
  const groups = new Map<string, string[]>()
  for (const name of names) {
    const tag = hashTagOf(keyspace.keyOf(name))
    const group = groups.get(tag)
    if (group === undefined) groups.set(tag, [name])
    else group.push(name)
  }
  return [...groups.values()]
}

/** A claim out of the texts of `list.lua`, in the order of `claim-record.lua`. */
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
