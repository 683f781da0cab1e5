import { setTimeout as pause } from 'node:timers/promises'
import type { Claim, KeyPage, ListedClaim, LockDriver, Request, Runner } from '../../core/contract/driver.ts'
import type { Bench, Terms } from '../bench.ts'
import { keyLetter, type ModelStep, type Step, type WishedClaim } from './command.ts'
import { ModelComparison } from './compare.ts'
import { isFinal, Model } from './model.ts'
import { NotificationLog } from './notification-log.ts'

/** More than a store mints in one script: a floor this far up is above every fence it can have given. */
const fenceLeap = 1_000_000

/** Fence floors for a store on which many scripts are played: each above every clock and all that was minted before. */
export class FenceFloor {
  #last = 2 ** 52

  above(leap: number): number {
    this.#last += leap
    return this.#last
  }
}

/** Plays one script on a driver and on the model, and finds the first difference. */
export class Player {
  readonly #bench: Bench
  readonly #drivers: readonly LockDriver[]
  readonly #terms: Terms
  /** Begins every key and id of this script: many scripts share a store. */
  readonly #prefix: string
  readonly #model = new Model()
  readonly #comparisons = new Map<string, ModelComparison>()
  readonly #claims = new Map<string, Claim>()
  readonly #notifications: NotificationLog
  readonly #startedAt = performance.now()
  readonly #fenceFloor: FenceFloor
  #modelFloor = 0

  constructor(bench: Bench, drivers: readonly LockDriver[], terms: Terms, prefix: string, fenceFloor: FenceFloor) {
    this.#fenceFloor = fenceFloor
    this.#bench = bench
    this.#drivers = drivers
    this.#terms = terms
    this.#prefix = prefix
    this.#notifications = new NotificationLog((id) => this.#ownerOf(id))
  }

  /** Returns the first difference, if any. If a slow store falls behind the script's times, the script ends early. */
  async play(commands: readonly ModelStep[]): Promise<string | undefined> {
    const listening = this.#drivers.map((driver, index) =>
      driver.listen?.(
        (key, id, notification) => {
          if (key.startsWith(this.#prefix)) this.#notifications.note({ driver: index, key, id, notification })
        },
        () => this.#notifications.noteGap(index),
      ),
    )
    try {
      for (const [index, command] of commands.entries()) {
        const difference = await this.#carryOut(command)
        if (difference !== undefined) return `command ${index + 1}: ${difference}`
        if (this.#isLate()) break
      }
      return await this.#compareNotifications()
    } finally {
      for (const subscription of listening) subscription?.[Symbol.dispose]()
    }
  }

  async #carryOut(command: ModelStep): Promise<string | undefined> {
    switch (command.type) {
      case 'send':
        return this.#send(command.driver, command.steps)
      case 'pass': {
        const ms = command.ticks * this.#terms.tickMs
        await this.#bench.advance(ms)
        this.#model.now += ms
        return undefined
      }
      case 'list':
        return this.#list(this.#key(command.key))
      case 'pages':
        return this.#listPages(command.limit)
    }
    return undefined
  }

  // ---- requests

  async #send(driver: number, steps: readonly Step[]): Promise<string | undefined> {
    const requests: { forModel: Request; forDriver: Request }[] = []
    for (const step of steps) requests.push(await this.#request(driver, step))
    const answers = await this.#sender(driver).send(requests.map(({ forDriver }) => forDriver))
    if (answers.length !== requests.length) return `${requests.length} requests had ${answers.length} answers`
    for (const [index, { forModel }] of requests.entries()) {
      const expected = this.#model.send(forModel)
      // The answer says what has become of the claim: a claim that ended and is sent again may wait anew, and never hear of its end.
      if (forModel.op === 'release' || forModel.op === 'claim') {
        const id = forModel.op === 'claim' ? forModel.claim.id : forModel.id
        this.#notifications.noteAsked(id, this.#model.notifications.length)
      }
      // The owner knows that the claim is over. During its grace the store may still list it, and evict it later.
      if (forModel.op === 'withdraw' && expected.state === 'absent')
        this.#notifications.noteAsked(forModel.id, Infinity)
      const key = forModel.op === 'claim' ? forModel.claim.key : forModel.key
      const difference = this.#comparison(key).status(expected, answers[index])
      if (difference === undefined) continue
      const both = `  rule: ${JSON.stringify(expected)}\n  driver: ${JSON.stringify(answers[index])}`
      return `request ${index + 1} (${forModel.op}): ${difference}\n${both}`
    }
    if (this.#terms.conversionsBeginAnew) this.#model.beginConversionsAnew()
    return undefined
  }

  async #request(driver: number, step: Step): Promise<{ forModel: Request; forDriver: Request }> {
    const id = this.#id(driver, step.claim)
    const claim = this.#claims.get(id)
    const key = claim?.key ?? this.#key(0)
    switch (step.op) {
      case 'claim':
        return alike({ op: 'claim', claim: this.#claim(driver, step.claim, step.wish) })
      case 'renew': {
        const renewal = { op: 'renew', key, id, ttlMs: this.#endMs(step.ttl) } as const
        if (step.fenceLift === undefined) return alike(renewal)
        const lift = fenceLeap + step.fenceLift
        this.#modelFloor = Math.max(this.#modelFloor, this.#model.lastFence(key)) + lift
        return {
          forModel: { ...renewal, fenceFloor: this.#modelFloor },
          forDriver: { ...renewal, fenceFloor: this.#fenceFloor.above(lift) },
        }
      }
      case 'release':
        return alike({ op: 'release', key, id })
      case 'withdraw':
        return alike({ op: 'withdraw', key, id })
      case 'evict': {
        const eviction = { op: 'evict', key, reason: 'a script' } as const
        const page = await this.#sender(driver).list({ key })
        const forModel = { ...eviction, fence: fenceOf(this.#model.list(key), id) }
        return { forModel, forDriver: { ...eviction, fence: fenceOf(this.#alive(page, key), id) } }
      }
    }
    throw new Error('unreachable')
  }

  #claim(driver: number, number: number, wish: WishedClaim): Claim {
    const id = this.#id(driver, number)
    let claim = this.#claims.get(id)
    if (claim === undefined) this.#claims.set(id, (claim = this.#make(driver, id, wish)))
    return claim
  }

  #make(driver: number, id: string, wish: WishedClaim): Claim {
    return {
      id,
      key: this.#key(wish.key),
      mode: wish.mode,
      ...(wish.limit !== undefined && { limit: wish.limit }),
      ...(wish.range !== undefined && { range: { start: wish.range[0], end: wish.range[1] } }),
      ...(wish.replaces !== undefined && { replaces: this.#id(driver, wish.replaces) }),
      priority: wish.priority,
      wait: wish.wait,
      ...(wish.evict !== undefined && { evict: wish.evict }),
      ...(wish.stale !== undefined && { staleMs: this.#endMs(wish.stale) }),
      ttlMs: this.#endMs(wish.ttl),
      graceMs: wish.grace * this.#terms.tickMs,
      ...(wish.maxHold !== undefined && { maxHoldMs: this.#endMs(wish.maxHold) }),
      runner: runnerCalled(wish.runner),
    }
  }

  // ---- lists

  async #list(key: string): Promise<string | undefined> {
    const page = await this.#sender(1).list({ key })
    return this.#compareList(key, page)
  }

  async #listPages(limit: number): Promise<string | undefined> {
    const keys = new Set<string>()
    let after: string | undefined
    do {
      const page = await this.#sender(0).list({
        prefix: this.#prefix,
        limit,
        ...(after !== undefined && { after }),
      })
      if (page.keys.length > limit) return `a page of ${limit} keys has ${page.keys.length}`
      for (const { key } of page.keys) {
        if (keys.has(key)) return `key ${key} is on two pages`
        keys.add(key)
        const difference = this.#compareList(key, page)
        if (difference !== undefined) return difference
      }
      after = page.next
    } while (after !== undefined)
    const missing = this.#model.keys().find((key) => !keys.has(key) && this.#model.list(key).length > 0)
    return missing === undefined ? undefined : `key ${missing} is on no page`
  }

  #compareList(key: string, page: KeyPage): string | undefined {
    const driver = this.#alive(page, key)
    return this.#comparison(key).claims(this.#model.list(key), this.#model.now, driver, page.now)
  }

  /** Ended claims may be listed or not: they are left out on both sides. */
  #alive(page: KeyPage, key: string): readonly ListedClaim[] {
    const claims = page.keys.find((entry) => entry.key === key)?.claims ?? []
    return claims.filter((claim) => !isFinal(claim, page.now))
  }

  // ---- notifications

  async #compareNotifications(): Promise<string | undefined> {
    if (!this.#sender(0).supports.push) return undefined
    await Promise.resolve()
    // Counted in turns, not by the clock: a process that was held up has not listened meanwhile.
    let leftMs = this.#terms.notifiedWithinMs
    for (; this.#notifications.undelivered(this.#model.notifications) !== undefined && leftMs > 0; leftMs -= 2)
      await pause(2)
    const undelivered = this.#notifications.undelivered(this.#model.notifications)
    return undelivered ?? this.#notifications.difference(this.#model.notifications, (key) => this.#comparison(key))
  }

  // ---- names and times

  #sender(driver: number): LockDriver {
    return this.#drivers[driver] as LockDriver
  }

  #key(key: number): string {
    return `${this.#prefix}${keyLetter(key)}`
  }

  /** Each driver has claims of its own. */
  #id(driver: number, claim: number): string {
    return `${this.#prefix}${driver}.${claim}`
  }

  #ownerOf(id: string): number {
    return Number(id.slice(this.#prefix.length).split('.')[0])
  }

  #comparison(key: string): ModelComparison {
    let comparison = this.#comparisons.get(key)
    if (comparison === undefined) {
      comparison = new ModelComparison(this.#terms.toleranceMs, this.#sender(0).supports.renewals)
      this.#comparisons.set(key, comparison)
    }
    return comparison
  }

  /**
   * A duration after which something ends. Where time really passes, ends fall half a tick beside the moments at which
   * a script asks, so that a slow answer cannot turn the outcome.
   */
  #endMs(ticks: number): number {
    const { tickMs, toleranceMs } = this.#terms
    return toleranceMs === 0 ? ticks * tickMs : (ticks + 0.5) * tickMs
  }

  /** Whether so much time was lost between commands that the model's clock is no longer the store's. */
  #isLate(): boolean {
    const { tickMs, toleranceMs } = this.#terms
    if (toleranceMs === 0) return false
    return performance.now() - this.#startedAt - this.#model.now > Math.min(tickMs / 4, toleranceMs)
  }
}

function runnerCalled(number: number): Runner {
  return {
    id: `runner-${number}`,
    incarnation: `${number}-1`,
    host: 'script',
    pid: number + 1,
    client: `client-${number}`,
  }
}

function fenceOf(claims: readonly ListedClaim[], id: string): number {
  // Not held: an eviction that must find nobody.
  return claims.find((claim) => claim.id === id && claim.state === 'held')?.fence ?? Number.MAX_SAFE_INTEGER
}

function alike(request: Request): { forModel: Request; forDriver: Request } {
  return { forModel: request, forDriver: request }
}
