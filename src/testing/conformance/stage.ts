import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import type {
  Claim,
  KeyPage,
  ListedClaim,
  ListQuery,
  LockDriver,
  Request,
  Runner,
  ClaimStatus,
  Notification,
  WaitingStatus,
  HeldStatus,
} from '../../core/contract/driver.ts'
import { termsOf, type Bench, type Harness, type Terms } from '../bench.ts'

/** What a claim of a test asks for, where it matters. Times are in ticks, other claims are meant by their names. */
export interface Wish {
  readonly key?: string
  readonly mode?: Claim['mode']
  readonly limit?: number
  readonly range?: readonly [start: number, end: number]
  readonly replaces?: string
  readonly priority?: number
  readonly wait?: boolean
  readonly evict?: Claim['evict']
  readonly stale?: number
  readonly ttl?: number
  readonly grace?: number
  readonly maxHold?: number
  readonly runner?: string
}

/** A notification that a driver passed on, with the test's name of the claim. */
export interface ReceivedNotification {
  readonly name: string
  readonly notification: Notification
}

/** The ttl of a claim, in ticks, where the test names none. */
const ttlTicks = 30

/** The name under which a gap is logged: it asks the client to poll every claim. */
const everyClaim = 'every claim'

/**
 * Where one test plays: a fresh store and two drivers on it. Claims have names; every other one is made through the
 * second driver, and what follows for a claim goes through the driver that made it.
 */
export class Stage {
  readonly key: string
  readonly terms: Terms
  readonly #bench: Bench
  #drivers: LockDriver[]
  readonly #claims = new Map<string, { claim: Claim; driver: number }>()

  private constructor(bench: Bench, terms: Terms, drivers: LockDriver[]) {
    this.#bench = bench
    this.terms = terms
    this.#drivers = drivers
    this.key = 'stage/named:key'
  }

  static async open(harness: Harness): Promise<Stage> {
    const bench = await harness.open()
    return new Stage(bench, termsOf(harness), [await bench.driver(), await bench.driver()])
  }

  close(): Promise<void> {
    return this.#bench.close()
  }

  get first(): LockDriver {
    return this.#drivers[0] as LockDriver
  }

  get second(): LockDriver {
    return this.#drivers[1] as LockDriver
  }

  /** One more driver on the same store. */
  anotherDriver(): Promise<LockDriver> {
    return this.#bench.driver()
  }

  /** The driver through which a claim was made. */
  driverOf(name: string): LockDriver {
    return this.#drivers[this.#known(name).driver] as LockDriver
  }

  id(name: string): string {
    return this.#known(name).claim.id
  }

  /** The claim under this name; the same one again if the name is known. */
  draft(name: string, wish: Wish = {}): Claim {
    const known = this.#claims.get(name)
    if (known !== undefined) return known.claim
    const claim = this.#make(name, wish)
    this.#claims.set(name, { claim, driver: this.#claims.size % 2 })
    return claim
  }

  // ---- requests

  async claim(name: string, wish: Wish = {}): Promise<ClaimStatus> {
    return this.ask(name, { op: 'claim', claim: this.draft(name, wish) })
  }

  /** Claims and expects to be granted. */
  async hold(name: string, wish: Wish = {}): Promise<HeldStatus> {
    return asHeld(name, await this.claim(name, wish))
  }

  /** Claims and expects to be queued. */
  async queue(name: string, wish: Wish = {}): Promise<WaitingStatus> {
    const status = await this.claim(name, wish)
    expect(status, `${name} should wait`).toMatchObject({ state: 'waiting' })
    return status as WaitingStatus
  }

  /** Claims without wanting to wait and expects to be refused. */
  async refused(name: string, wish: Wish = {}): Promise<void> {
    const status = await this.claim(name, { ...wish, wait: false })
    expect(status, `${name} should be refused`).toEqual({ state: 'absent', reason: 'refused' })
  }

  /** Asks how a claim stands by sending it once more, which changes nothing about it. */
  status(name: string): Promise<ClaimStatus> {
    return this.ask(name, { op: 'claim', claim: this.#known(name).claim })
  }

  async standsHeld(name: string): Promise<HeldStatus> {
    return asHeld(name, await this.status(name))
  }

  async standsWaiting(name: string): Promise<void> {
    expect(await this.status(name), `${name} should wait`).toMatchObject({ state: 'waiting' })
  }

  renew(name: string, ttl = ttlTicks, fenceFloor?: number): Promise<ClaimStatus> {
    const { key, id } = this.#known(name).claim
    const ttlMs = this.ms(ttl)
    return this.ask(name, { op: 'renew', key, id, ttlMs, ...(fenceFloor !== undefined && { fenceFloor }) })
  }

  release(name: string): Promise<ClaimStatus> {
    const { key, id } = this.#known(name).claim
    return this.ask(name, { op: 'release', key, id })
  }

  withdraw(name: string): Promise<ClaimStatus> {
    const { key, id } = this.#known(name).claim
    return this.ask(name, { op: 'withdraw', key, id })
  }

  async evict(fence: number, reason = 'a test', key = this.key): Promise<ClaimStatus> {
    return only(await this.first.send([{ op: 'evict', key, fence, reason }]))
  }

  /** Sends one request through the driver that made the claim. */
  async ask(name: string, request: Request): Promise<ClaimStatus> {
    return only(await this.driverOf(name).send([request]))
  }

  // ---- listing and notifications

  list(query: ListQuery = {}): Promise<KeyPage> {
    return this.second.list(query)
  }

  /** Every claim listed for a key. */
  async listed(key = this.key): Promise<readonly ListedClaim[]> {
    const page = await this.list({ key })
    return page.keys.find((entry) => entry.key === key)?.claims ?? []
  }

  /** The test's name of a listed or notified claim. */
  nameOf(id: string): string {
    for (const [name, { claim }] of this.#claims) if (claim.id === id) return name
    return id
  }

  /** Logs the notifications of one driver; the log stays empty if the driver pushes none. */
  listenTo(driver: LockDriver): readonly ReceivedNotification[] {
    const received: ReceivedNotification[] = []
    driver.listen?.(
      (_key, id, notification) => received.push({ name: this.nameOf(id), notification }),
      () => received.push({ name: everyClaim, notification: 'poll' }),
    )
    return received
  }

  /** Waits for a matching notification of a claim, or for a request to poll it. */
  async receives(
    received: readonly ReceivedNotification[],
    name: string,
    matches: (notification: ClaimStatus) => boolean,
  ): Promise<void> {
    const fits = ({ name: receiver, notification }: ReceivedNotification) =>
      (receiver === name || receiver === everyClaim) && (notification === 'poll' || matches(notification))
    // Counted in turns, not by the clock: a process that was held up has not listened meanwhile.
    for (let leftMs = this.terms.notifiedWithinMs; !received.some(fits); leftMs -= 5) {
      expect(leftMs, `${name} should have heard. It came to: ${JSON.stringify(received)}`).toBeGreaterThan(0)
      await pause(5)
    }
  }

  // ---- time

  ms(ticks: number): number {
    return ticks * this.terms.tickMs
  }

  async pass(ticks: number): Promise<void> {
    await this.#bench.advance(this.ms(ticks))
  }

  /** The last instant before `ticks` have passed that a test can hit. */
  async passAlmost(ticks: number): Promise<void> {
    await this.#bench.advance(this.ms(ticks) - this.#instantMs)
  }

  /** From there to the first instant at which they have. */
  async passTheRest(): Promise<void> {
    const { toleranceMs } = this.terms
    await this.#bench.advance(toleranceMs === 0 ? this.#instantMs : this.#instantMs + toleranceMs)
  }

  /** Expects a duration told by the store to be this many ticks. */
  expectTicks(actualMs: number, ticks: number): void {
    const expectedMs = this.ms(ticks)
    const { toleranceMs } = this.terms
    expect(actualMs).toBeGreaterThanOrEqual(expectedMs - toleranceMs)
    expect(actualMs).toBeLessThanOrEqual(expectedMs + toleranceMs)
  }

  // ---- the store

  async restart(): Promise<void> {
    await this.#bench.restart?.()
    await this.#reconnect()
  }

  async empty(): Promise<void> {
    await this.#bench.empty?.()
    await this.#reconnect()
  }

  async #reconnect(): Promise<void> {
    this.#drivers = [await this.#bench.driver(), await this.#bench.driver()]
  }

  get #instantMs(): number {
    return Math.max(1, this.terms.toleranceMs)
  }

  #known(name: string): { readonly claim: Claim; readonly driver: number } {
    const known = this.#claims.get(name)
    if (known === undefined) throw new Error(`The test has no claim "${name}".`)
    return known
  }

  #make(name: string, wish: Wish): Claim {
    return {
      id: `${name}-${randomUUID()}`,
      key: wish.key ?? this.key,
      mode: wish.mode ?? 'exclusive',
      ...(wish.limit !== undefined && { limit: wish.limit }),
      ...(wish.range !== undefined && { range: { start: wish.range[0], end: wish.range[1] } }),
      ...(wish.replaces !== undefined && { replaces: this.id(wish.replaces) }),
      priority: wish.priority ?? 0,
      wait: wish.wait ?? true,
      ...(wish.evict !== undefined && { evict: wish.evict }),
      ...(wish.stale !== undefined && { staleMs: this.ms(wish.stale) }),
      ttlMs: this.ms(wish.ttl ?? ttlTicks),
      graceMs: this.ms(wish.grace ?? 0),
      ...(wish.maxHold !== undefined && { maxHoldMs: this.ms(wish.maxHold) }),
      runner: runnerCalled(wish.runner ?? name),
    }
  }
}

function runnerCalled(name: string): Runner {
  return { id: `runner-${name}`, incarnation: `${name}-1`, host: 'stage', pid: 1, client: `client-${name}` }
}

function asHeld(name: string, status: ClaimStatus): HeldStatus {
  expect(status, `${name} should hold`).toMatchObject({ state: 'held' })
  return status as HeldStatus
}

function only(statuses: readonly ClaimStatus[]): ClaimStatus {
  expect(statuses, 'one request has one answer').toHaveLength(1)
  return statuses[0] as ClaimStatus
}
