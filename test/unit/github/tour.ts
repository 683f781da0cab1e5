import { Octokit } from '@octokit/core'
import { createLocks } from '../../../src/api/create-locks.ts'
import type { Lease } from '../../../src/api/lease.ts'
import type { github as Github } from '../../../src/drivers/github/driver.ts'
import { checkHistory, type HistoryEvent } from '../../../src/testing/index.ts'
import { asFetch } from '../../support/github/as-fetch.ts'
import { FakeGithub } from '../../support/github/fake-github.ts'
import { silent } from '../../support/github/github-harness.ts'
import { World } from '../../../src/testing/simulation/world.ts'
import { Promises } from './promises.ts'
import { Weather } from './weather.ts'

export interface TourOptions {
  readonly seed: number
  readonly clients: number
  readonly github: typeof Github
  /** The driver's `settle` option. GitHub lags by less than a second whatever it is. */
  readonly settle?: number
  /**
   * rush: all clients want the issue at once, and briefly. storm: machines stop and lines are cut for about as long as a lease.
   * siege: the renewals of every holder fail for most of its lease, and then arrive late.
   */
  readonly kind: 'rush' | 'storm' | 'siege'
  /** Readers, writers, priorities, upgrades and downgrades, not only exclusive locks. */
  readonly mixed?: boolean
}

const ttlMs = 60_000
const tourMs = { rush: 120_000, storm: 900_000, siege: 900_000 }
const lagMs = 1000
const generous = { requestsPerHour: 1e9, pointsPerMinute: 1e9, createdPerMinute: 1e9, createdPerHour: 1e9 }

export interface Story extends Pick<ReturnType<typeof checkHistory>, 'summary'> {
  /** Two that held at once, fences out of order, promises that went too far. */
  readonly violations: readonly string[]
}

/** Lets clients compete for one issue under stale reads, lost and late requests and replies, errors and standstills. */
export async function tour(options: TourOptions): Promise<Story> {
  const { seed, clients, github, settle = lagMs, kind, mixed = false } = options
  const world = new World(seed)
  const begin = Date.parse('2026-01-01T00:00:00Z') + world.between(0, 999)
  const fake = new FakeGithub({ now: () => begin + world.now, lagMs, seed, allowance: generous })
  fake.user('someone', 'admin')
  const issue = fake.openIssue('A task', 'someone')
  const events: HistoryEvent[] = []
  const weathers = new Map<string, Weather>()
  const promises = new Promises(world)
  const runs = Array.from({ length: clients }, (_, index) => {
    const weather = new Weather(world)
    const token = `token-${index}`
    weathers.set(`token ${token}`, weather)
    fake.user(`worker-${index}`, 'write', token)
    const line = asFetch(fake, { travel: (leg, method) => weather.travel(leg, method), isCut: () => weather.isCut })
    const octokit = new Octokit({ auth: token, request: { fetch: line }, log: silent })
    const rate = 1 + (world.random() - 0.5) * 0.02
    const environment = weather.environment(rate)
    const driver = github(fake.repository, {
      octokit,
      environment,
      settle,
      poll: { min: 500, max: 4000 },
      assign: false,
      heldLabel: false,
    })
    if (kind === 'storm') weather.injectFaults(tourMs.storm)
    return play(
      world,
      { client: `client-${index}`, rate, issue, kind, mixed, weather },
      { driver: promises.of(driver), environment },
      events,
    )
  })
  fake.fault = ({ headers }) => {
    if (weathers.get(headers['authorization'] ?? '')?.isFailing === true) return { status: 503 }
    return world.chance(0.03) ? { status: 502, carriedOut: world.chance(0.5) } : undefined
  }
  await world.run(Promise.all(runs), 10 * tourMs[kind])
  const { violations, summary } = checkHistory(events, { fair: false })
  return { summary, violations: [...violations.map(({ message }) => message), ...promises.broken] }
}

interface Player {
  readonly client: string
  /** The rate of its clock. */
  readonly rate: number
  readonly issue: number
  readonly kind: TourOptions['kind']
  readonly mixed: boolean
  readonly weather: Weather
}

async function play(
  world: World,
  { client, rate, issue, kind, mixed, weather }: Player,
  locksOptions: Parameters<typeof createLocks>[0],
  events: HistoryEvent[],
): Promise<void> {
  const locks = await opened(world, locksOptions)
  const scope = { kind: 'issue', key: `issue:${issue}` } as const
  let attempt = ''
  const deadline = (remainingMs: number): number => world.now + remainingMs / rate
  const byFence = new Map<number, string>()
  locks.on('renewed', ({ fence, remainingMs }) => {
    const renewed = byFence.get(fence) ?? attempt
    events.push({ type: 'renewed', at: world.now, attempt: renewed, deadline: deadline(remainingMs) })
  })
  for (let turn = 0; world.now < tourMs[kind]; turn += 1) {
    await world.wait(kind === 'rush' ? world.between(0, 300) : world.between(0, 5000))
    attempt = `${client}/${turn}`
    const shares = mixed && world.chance(0.5)
    const ask = (mode: 'exclusive' | 'shared'): void => {
      events.push({ type: 'acquire', at: world.now, client, attempt, key: 'k', mode })
    }
    const got = ({ fence, remainingMs }: Lease): void => {
      byFence.set(fence, attempt)
      events.push({ type: 'granted', at: world.now, attempt, fence, deadline: deadline(remainingMs) })
    }
    ask(shares ? 'shared' : 'exclusive')
    try {
      const priority = mixed && world.chance(0.3) ? world.between(-1, 1) : 0
      const options = { ttl: ttlMs, wait: world.between(1000, 200_000), priority }
      const book = locks.readWrite(scope)
      let lease = await (shares ? book.read(options) : mixed ? book.write(options) : locks.acquire(scope, options))
      got(lease)
      if (mixed && world.chance(0.4)) {
        await world.wait(world.between(0, 5000))
        const held = attempt
        attempt = `${held}/converted`
        ask(shares ? 'exclusive' : 'shared')
        const wait = world.between(1000, 60_000)
        const converted = await (shares ? lease.upgrade({ wait }) : lease.downgrade()).catch(() => undefined)
        if (converted === undefined) {
          events.push({ type: 'refused', at: world.now, attempt })
          attempt = held
        } else {
          events.push({ type: 'release', at: world.now, attempt: held })
          lease = converted
          got(lease)
        }
      }
      if (kind === 'siege') weather.beset(ttlMs)
      const isLong = kind === 'siege' || (kind === 'storm' && world.chance(0.5))
      const longMs = isLong ? world.between(ttlMs, 2.5 * ttlMs) : 0
      await world.wait(longMs + world.between(10, 3000))
      if (lease.held) events.push({ type: 'checked', at: world.now, attempt })
      events.push({ type: 'release', at: world.now, attempt })
      if (world.chance(0.8)) await lease.release()
      // Otherwise it stops renewing, as a crashed holder would.
      else lease.stopHeartbeat()
    } catch {
      events.push({ type: 'refused', at: world.now, attempt })
    }
  }
  await locks.close()
}

async function opened(world: World, options: Parameters<typeof createLocks>[0]): ReturnType<typeof createLocks> {
  for (;;) {
    try {
      return await createLocks(options)
    } catch {
      await world.wait(1000)
    }
  }
}
