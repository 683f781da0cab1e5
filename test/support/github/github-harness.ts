import { setImmediate as nextTurn } from 'node:timers/promises'
import { Octokit } from '@octokit/core'
import type { LockDriver } from '../../../src/core/contract/driver.ts'
import { github, type GithubOptions } from '../../../src/drivers/github/driver.ts'
import type { Harness } from '../../../src/testing/index.ts'
import { asFetch } from './as-fetch.ts'
import { FakeGithub } from './fake-github.ts'
import type { OpenApi } from './openapi.ts'

const generous = { requestsPerHour: 1e9, pointsPerMinute: 1e9, createdPerMinute: 1e9, createdPerHour: 1e9 }

/** An octokit that reaches the fake without a network, and without the pauses that GitHub wants between requests. */
export function plainOctokit(fake: FakeGithub, token: string): Octokit {
  return new Octokit({ auth: token, request: { fetch: asFetch(fake, { travel }) }, log: silent })
}

/** Answers come in a later turn of the event loop, as from a socket: others get theirs in between. */
const travel = (): Promise<void> => nextTurn()

export const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** A repository of its own for each bench. `moves`: its clock moves only with the bench, else with ours. */
export function githubHarness(openapi: OpenApi, moves: boolean, options: GithubOptions): Omit<Harness, 'except'> {
  return {
    ...(moves && { tickMs: 10_000 }),
    // GitHub tells its time in whole seconds.
    toleranceMs: 2000,
    apart: true,
    async open() {
      let time = Date.parse('2026-01-01T00:00:00Z')
      const fake = new FakeGithub({ openapi, allowance: generous, ...(moves && { now: () => time }) })
      const drivers: LockDriver[] = []
      return {
        async driver() {
          const [login, token] = [`worker-${drivers.length}`, `token-${drivers.length}`]
          fake.user(login, 'write', token)
          const driver = github(fake.repository, { octokit: plainOctokit(fake, token), ...options })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        advance: async (ms) => void (time += ms),
        empty: async () => fake.empty(),
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
          if (fake.complaints.length > 0) throw new Error(fake.complaints.slice(0, 5).join('\n'))
        },
      }
    },
  }
}
