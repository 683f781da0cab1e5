/**
 * The repository that the tests of a repository run against: the one that GITHUB_REPO names, else one at a GitHub of our
 * own in a process of its own. Either way it is found by the variables that a user sets: GITHUB_REPO, GITHUB_TOKEN and, for
 * a GitHub Enterprise Server, GITHUB_API_URL.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Octokit } from '@octokit/core'
import { durationMs, type Duration } from '../../../src/core/time/duration.ts'
import { github, type GithubDriver, type GithubOptions } from '../../../src/drivers/github/driver.ts'
import { findToken } from '../../../src/drivers/github/api/octokit.ts'
import { Child } from '../child.ts'
import { silent } from './github-harness.ts'

export interface TestRepository {
  readonly name: string
  /** Whether it is at a GitHub that is not ours: it wants pauses between writes, and its time is real. */
  readonly isReal: boolean
  readonly settleMs: number
  /** The URL of the API. */
  readonly url: string
  readonly token: string
  readonly octokit: Octokit
  /** Opens an issue to lock; it may stay. */
  openIssue(): Promise<number>
  /** A driver as a user makes it, from the variables alone. */
  driver(options?: GithubOptions): GithubDriver
  /** The same, without the pauses between writes that a real GitHub wants. */
  quickDriver(options?: GithubOptions): GithubDriver
  advance(milliseconds: number): Promise<void>
  close(): Promise<void>
}

const isReal = process.env['GITHUB_REPO'] !== undefined
const own = isReal ? undefined : await startOwn()

export async function testRepository(): Promise<TestRepository> {
  const { GITHUB_REPO: name = '', GITHUB_API_URL: baseUrl, GITHUB_SETTLE: settle = '5s' } = process.env
  const settleMs = durationMs(settle as Duration, 'GITHUB_SETTLE')
  const url = baseUrl || 'https://api.github.com'
  const token = await findToken(undefined)
  const octokit = new Octokit({ auth: token, baseUrl: url, log: silent })
  const driver = (options: GithubOptions = {}) => github(name, { settle: settleMs, ...options })
  return {
    name,
    isReal,
    settleMs,
    url,
    token,
    octokit,
    async openIssue() {
      const [owner = '', repo = ''] = name.split('/')
      const title = 'A task for the tests of Leasehold'
      return (await octokit.request('POST /repos/{owner}/{repo}/issues', { owner, repo, title })).data.number
    },
    driver,
    quickDriver: (options) => driver({ ...(!isReal && { octokit }), ...options }),
    async advance(milliseconds) {
      await (own === undefined ? pause(milliseconds) : own.advance(milliseconds))
    },
    async close() {
      const complaints = (await own?.advance(0)) ?? []
      await own?.child.kill()
      if (complaints.length > 0) throw new Error(complaints.slice(0, 5).join('\n'))
    },
  }
}

/** Starts ours, and sets the variables as a user would. */
async function startOwn() {
  const child = new Child('github-server', ['0'])
  await child.line(/^ready$/)
  for (const line of child.lines) {
    const [, name, value] = /^(GITHUB_\w+)=(.*)$/.exec(line) ?? []
    if (name !== undefined) process.env[name] = value
  }
  process.env['GITHUB_SETTLE'] = '5ms'
  const control = `${new URL(process.env['GITHUB_API_URL'] ?? '').origin}/control`
  const advance = async (milliseconds: number): Promise<readonly string[]> => {
    const answer = await fetch(control, { method: 'POST', body: JSON.stringify({ advance: milliseconds }) })
    return (await answer.json()) as string[]
  }
  return { child, advance }
}
