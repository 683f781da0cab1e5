import { createHash } from 'node:crypto'
import type { Claim, ClaimStatus, LockDriver, Notification } from '../../../src/core/contract/driver.ts'
import { trustedUntil } from '../../../src/core/time/deadline.ts'
import { documentDriver } from '../../../src/drivers/document/driver.ts'
import { clocklessOverNetwork, SimulatedLink, type Weather } from '../../../src/testing/simulation/network.ts'
import { SimulatedProcess } from '../../../src/testing/simulation/simulated-process.ts'
import { World } from '../../../src/testing/simulation/world.ts'
import { ClocklessShelf } from '../support/clockless-shelf.ts'

/** What one schedule showed. */
export interface Schedule {
  readonly holds: number
  /** Pairs that trusted one lock at once, by true time. */
  readonly overlaps: readonly string[]
  /** Grants whose fence was not above all before them. */
  readonly fences: readonly string[]
  /** The same for the same story. */
  readonly hash: string
  /** Holds that began with a notification. */
  readonly told: number
}

const hourMs = 3_600_000
const mostOff = 0.05
const key = 'default/named:x'
const ttls = [300, 1000, 2000]

/** A hold that somebody trusts, in true time. */
interface Hold {
  readonly who: string
  readonly mode: 'exclusive' | 'shared'
  from: number
  until: number
}

/**
 * Plays a few owners of one key straight on drivers without a clock to ask: their clocks run up to a twentieth too fast or slow, their wall
 * clocks are off by up to an hour, messages are lost, late and repeated, and processes stop and die. Some owners send a claim now by
 * one driver, now by another, as a client does that fails over. Half the stores tell the revisions that they give, so drivers guess.
 * An owner trusts what the client would: counted from before the sending. True time judges. `seconds` of it are played; `failingOver` is the
 * share of owners with two drivers, `farOff` that of clocks that are as wrong as they may be.
 */
export async function playSchedule(
  seed: number,
  { seconds = 20, failingOver = 0.3, farOff = 0.6 } = {},
): Promise<Schedule> {
  const world = new World(seed)
  const shelf = new ClocklessShelf()
  const until = seconds * 1000
  const tellsRevisions = world.chance(0.5)
  const play: Play = {
    world,
    shelf,
    until,
    tellsRevisions,
    failingOver,
    farOff,
    holds: [],
    overlaps: [],
    fences: [],
    lastFence: 0,
    names: 0,
    told: 0,
  }
  const owners = Array.from({ length: world.between(2, 4) }, () => live(play))
  await world.run(Promise.race([Promise.all(owners), world.wait(until + 30_000)]))
  const { holds, overlaps, fences, names, told } = play
  const hash = createHash('sha256')
  for (const { who, mode, from, until: end } of holds) hash.update(`${who} ${mode} ${from} ${end}\n`)
  return { holds: holds.length, overlaps, fences, told, hash: hash.update(`${names} names`).digest('hex').slice(0, 16) }
}

interface Play {
  readonly world: World
  readonly shelf: ClocklessShelf
  readonly until: number
  readonly tellsRevisions: boolean
  readonly failingOver: number
  readonly farOff: number
  readonly holds: Hold[]
  readonly overlaps: string[]
  readonly fences: string[]
  lastFence: number
  names: number
  told: number
}

/** One process after another, each with a clock of its own. */
async function live(play: Play): Promise<void> {
  const { world, shelf, until, tellsRevisions, failingOver, farOff } = play
  while (world.now < until) {
    const isFarOff = world.chance(farOff)
    const rate = 1 + mostOff * (isFarOff ? (world.chance(0.5) ? 1 : -1) : 2 * world.random() - 1)
    const offMs = (2 * world.random() - 1) * hourMs
    const process = new SimulatedProcess(world, rate, (wallMs) => wallMs + offMs)
    const polling = { minMs: 10, maxMs: 50, keysPerSecondMax: 100 }
    const newDriver = (): LockDriver => {
      const line = new SimulatedLink(world, process, weather(world))
      return documentDriver(clocklessOverNetwork(line, shelf.store(polling, tellsRevisions)), process.environment)
    }
    const first = newDriver()
    const second = world.chance(failingOver) ? newDriver() : first
    // Two of one process hand over to each other by notifications of its driver.
    const owners = Array.from({ length: world.between(1, 2) }, () => new Owner(play, process, first, second))
    const lifeMs = world.between(500, 6000)
    const ended = world.wait(lifeMs).then(() => process.kill())
    injectStops(world, process, until)
    await Promise.race([Promise.all(owners.map((owner) => owner.work())), process.killed, ended])
    for (const owner of owners) owner.die()
    for (const driver of new Set([first, second])) void driver.close()
  }
}

function injectStops(world: World, process: SimulatedProcess, until: number): void {
  const again = (): void => {
    if (world.now >= until || !process.isAlive) return
    process.stopFor(world.between(20, 1500))
    world.at(world.between(300, 3000), again)
  }
  world.at(world.between(100, 3000), again)
}

function weather(world: World): Weather {
  const isBad = world.chance(0.3)
  const happens = (share: number): boolean => world.chance(isBad ? 3 * share : share)
  return {
    delayMs: () => (happens(0.06) ? world.between(50, 1500) : world.between(0, 5)),
    refuses: () => happens(0.01),
    loses: () => happens(0.03),
    repeats: () => happens(0.03),
  }
}

/** Takes, renews and gives back one lock, over and over, as a client does. */
class Owner {
  readonly #play: Play
  readonly #process: SimulatedProcess
  /** Each call goes to one or the other. */
  readonly #first: LockDriver
  readonly #second: LockDriver
  #hold: Hold | undefined
  /** What it waits with, and until when the last answer lets it trust that, if it is granted. */
  #waiting: { readonly claim: Claim; readonly until: number } | undefined
  /** The shortest lease that was asked for and never answered bounds what later answers give. */
  #doubtMs = Infinity

  constructor(play: Play, process: SimulatedProcess, first: LockDriver, second: LockDriver) {
    this.#play = play
    this.#process = process
    this.#first = first
    this.#second = second
    for (const driver of new Set([first, second])) {
      driver.listen?.((_key, id, notification) => this.#notified(id, notification))
    }
  }

  async work(): Promise<void> {
    const { world, until } = this.#play
    while (world.now < until) {
      await this.#turn()
      await this.#process.wait(world.between(1, 200))
    }
  }

  /** Its process has ended: what it trusted ended with it. */
  die(): void {
    this.#waiting = undefined
    this.#endHold()
  }

  /** As the client does: a grant that it is told of does not restart its lease. */
  #notified(id: string, notification: Notification): void {
    if (notification === 'poll' || !this.#process.isAlive) return
    if (notification.state === 'absent' && this.#hold?.who === id) return this.#endHold()
    const waiting = this.#waiting
    if (notification.state !== 'held' || waiting?.claim.id !== id || this.#hold !== undefined) return
    const { world } = this.#play
    const told = trustedUntil(this.#process.environment.now(), notification.ttlMs)
    const until = Math.min(waiting.until, this.#trueTime(told))
    this.#waiting = undefined
    if (until <= world.now) return
    this.#play.told += 1
    this.#begin(waiting.claim, notification.fence, until)
  }

  async #turn(): Promise<void> {
    const { world } = this.#play
    const ttlMs = anyTtl(world)
    const claim = this.#claim(ttlMs)
    this.#doubtMs = Infinity
    const giveUpAt = world.now + world.between(100, 4000)
    let status = await this.#trusting(claim, ttlMs, () => this.#send({ op: 'claim', claim }))
    while (status?.state === 'waiting' || status?.state === 'unknown') {
      if (world.now > giveUpAt) break
      await this.#process.wait(world.between(5, 40))
      if (this.#hold !== undefined) {
        status = { state: 'held', fence: 0, ttlMs: 1 }
        break
      }
      const again = status.state === 'unknown' ? ({ op: 'claim', claim } as const) : renewal(claim.id, ttlMs)
      status = await this.#trusting(claim, ttlMs, () => this.#send(again))
    }
    let isInDoubt = false
    while (status?.state === 'held' && world.chance(0.8)) {
      await this.#process.wait(world.between(1, ttlMs / 2))
      if (this.#hold === undefined || this.#hold.until <= world.now) break
      const nextMs = world.chance(0.8) ? ttlMs : anyTtl(world)
      // A claim that is sent again must not stretch the lease that is stored, whoever wrote that.
      const isClaim = nextMs === ttlMs && world.chance(isInDoubt ? 0.7 : 0.1)
      const request = isClaim ? ({ op: 'claim', claim } as const) : renewal(claim.id, nextMs)
      status = await this.#trusting(claim, nextMs, () => this.#send(request))
      isInDoubt = status.state === 'unknown'
      if (isInDoubt && this.#hold !== undefined) status = { state: 'held', fence: 0, ttlMs: 1 }
    }
    // At times it works to the last moment that it may, without a word to the store.
    if (this.#hold !== undefined && world.chance(0.4)) await this.#process.wait(2 * ttlMs)
    this.#waiting = undefined
    this.#endHold()
    for (let tries = 0; tries < 5; tries += 1) {
      const released = await this.#send({ op: 'release', key, id: claim.id })
      if (released?.state === 'absent') return
    }
  }

  /** Asks, and trusts the lease as the client would: from before the sending, less the margin. */
  async #trusting(claim: Claim, ttlMs: number, ask: () => Promise<ClaimStatus>): Promise<ClaimStatus> {
    const { environment } = this.#process
    const { world } = this.#play
    const sentAt = environment.now()
    // A renewal for less counts from now on, answered or not.
    if (this.#hold !== undefined) this.#cut(this.#trueTime(trustedUntil(sentAt, ttlMs)))
    const status = await ask()
    if (status.state === 'unknown') this.#doubtMs = Math.min(this.#doubtMs, ttlMs)
    this.#waiting = undefined
    if (status.state === 'waiting' && this.#hold === undefined) {
      this.#waiting = { claim, until: this.#trueTime(trustedUntil(sentAt, Math.min(status.ttlMs, this.#doubtMs))) }
    }
    if (status.state === 'held') {
      const until = this.#trueTime(trustedUntil(sentAt, Math.min(status.ttlMs, this.#doubtMs)))
      if (this.#hold === undefined && until > world.now) this.#begin(claim, status.fence, until)
      else if (this.#hold !== undefined) this.#extend(until)
    } else if (status.state === 'absent') this.#endHold()
    return status
  }

  #trueTime(ownMs: number): number {
    return ownMs / this.#process.rate
  }

  #begin(claim: Claim, fence: number, until: number): void {
    const { play, world } = { play: this.#play, world: this.#play.world }
    const hold = { who: claim.id, mode: claim.mode, from: world.now, until }
    for (const held of play.holds.slice(-12)) {
      const conflicts = held.mode === 'exclusive' || hold.mode === 'exclusive'
      if (conflicts && held.until > hold.from) {
        play.overlaps.push(`${held.who} until ${held.until.toFixed(1)}, ${hold.who} from ${hold.from.toFixed(1)}`)
      }
    }
    if (fence <= play.lastFence && claim.mode === 'exclusive') play.fences.push(`${fence} after ${play.lastFence}`)
    play.lastFence = Math.max(play.lastFence, fence)
    play.holds.push(hold)
    this.#hold = hold
  }

  /** A lease that is over is not revived, and others may have been granted the lock since: that would be an overlap. */
  #extend(until: number): void {
    const { world, holds, overlaps } = this.#play
    const hold = this.#hold
    if (hold === undefined) return
    if (hold.until <= world.now) return this.#endHold()
    hold.until = until
    for (const held of holds.slice(-12)) {
      const conflicts = held !== hold && (held.mode === 'exclusive' || hold.mode === 'exclusive')
      if (conflicts && held.from > hold.from && held.until > world.now) {
        overlaps.push(`${hold.who} renewed at ${world.now.toFixed(1)} while ${held.who} holds`)
      }
    }
  }

  #cut(until: number): void {
    if (this.#hold !== undefined) this.#hold.until = Math.min(this.#hold.until, until)
  }

  #endHold(): void {
    this.#cut(this.#play.world.now)
    this.#hold = undefined
  }

  async #send(request: Parameters<LockDriver['send']>[0][number]): Promise<ClaimStatus> {
    try {
      const driver = this.#play.world.chance(0.5) ? this.#first : this.#second
      const [status] = await driver.send([request])
      return status ?? { state: 'unknown', error: undefined }
    } catch (error) {
      return { state: 'unknown', error }
    }
  }

  #claim(ttlMs: number): Claim {
    const { world } = this.#play
    const name = `claim-${(this.#play.names += 1)}`
    return {
      id: name,
      key,
      mode: world.chance(0.3) ? 'shared' : 'exclusive',
      priority: 0,
      wait: world.chance(0.8),
      ttlMs,
      graceMs: world.chance(0.1) ? 100 : 0,
      runner: { id: name, incarnation: name, host: 'sim', pid: 1, client: name },
    }
  }
}

function anyTtl(world: World): number {
  return ttls[world.between(0, ttls.length - 1)] ?? 1000
}

function renewal(id: string, ttlMs: number): { op: 'renew'; key: string; id: string; ttlMs: number } {
  return { op: 'renew', key, id, ttlMs }
}
