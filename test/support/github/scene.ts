import { Octokit } from '@octokit/core'
import { createLocks, type CreateLocksOptions } from '../../../src/api/create-locks.ts'
import type { Locks } from '../../../src/api/locks.ts'
import { github, type GithubDriver, type GithubOptions } from '../../../src/drivers/github/driver.ts'
import { World } from '../../../src/testing/simulation/world.ts'
import { asFetch } from './as-fetch.ts'
import { FakeGithub, type FakeGithubOptions } from './fake-github.ts'
import { silent } from './github-harness.ts'
import { OpenApi } from './openapi.ts'

// Loaded beforehand: loading takes real time, and simulated time would not wait for it.
await Promise.all([import('@octokit/plugin-retry'), import('@octokit/plugin-throttling')])

let openapi: OpenApi | undefined

export interface Worker {
  readonly locks: Locks
  readonly driver: GithubDriver
  readonly login: string
}

export const startsAt = Date.parse('2026-01-01T00:00:00Z')

/** A repository and workers on it, in simulated time: an hour passes in a moment, and always in the same way. */
export class Scene {
  readonly world: World
  readonly fake: FakeGithub
  readonly #workers: Worker[] = []
  #tokens = 0

  constructor(options: FakeGithubOptions = {}) {
    openapi ??= new OpenApi()
    this.world = new World(options.seed ?? 1)
    this.fake = new FakeGithub({ now: () => startsAt + this.world.now, openapi, ...options })
    this.fake.user('a-person', 'admin', 'token of a-person')
  }

  /** An octokit of this account, without plugins. */
  octokit(login: string, fetch = this.fetch()): Octokit {
    const token = `token ${(this.#tokens += 1)} of ${login}`.replaceAll(' ', '-')
    this.fake.user(login, 'write', token)
    return new Octokit({ auth: token, request: { fetch }, log: silent })
  }

  /** A line to GitHub that takes some milliseconds each way. */
  fetch(): typeof globalThis.fetch {
    return asFetch(this.fake, { travel: () => this.world.wait(this.world.between(20, 80)) })
  }

  async worker(
    login: string,
    { anonymous = false, ...options }: GithubOptions & { readonly anonymous?: boolean } = {},
    more: Omit<CreateLocksOptions, 'driver' | 'environment'> = {},
  ): Promise<Worker> {
    const environment = this.world.environment()
    const driver = github(this.fake.repository, {
      ...(options.fetch === undefined && options.octokit === undefined && { octokit: this.octokit(login) }),
      environment,
      ...(!anonymous && { workerId: login }),
      ...options,
    })
    const locks = await this.run(createLocks({ driver, environment, ...more }))
    const worker = { locks, driver, login }
    this.#workers.push(worker)
    return worker
  }

  /** What the work gives, when as much time has passed as it takes. */
  async run<Result>(work: Promise<Result>): Promise<Result> {
    await this.world.run(work.catch(() => {}))
    return work
  }

  /** Lets all workers go, with whatever fault there was repaired. */
  async close(): Promise<void> {
    this.fake.fault = () => undefined
    for (const { locks } of this.#workers) await this.run(locks.close())
    if (this.fake.complaints.length > 0) throw new Error(this.fake.complaints.slice(0, 5).join('\n'))
  }
}
