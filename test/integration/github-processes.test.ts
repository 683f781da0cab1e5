// On a GitHub of our own with faults, and without them on the repository of GITHUB_REPO, if it is set.
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkHistory, historyLog, readHistory } from '../../src/testing/index.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { Child } from '../support/child.ts'
import { GithubServer } from '../support/github/github-server.ts'
import { OpenApi } from '../support/github/openapi.ts'
import { folderForTest } from '../support/test-folder.ts'

interface Arena {
  readonly url: string
  readonly repository: string
  readonly issue: number
  token(worker: number): string
  readonly pace: 'hasty' | 'polite'
  readonly runMs: number
  readonly settleMs: number
  readonly ttlMs: number
  readonly holdMs: number
}

const generous = { requestsPerHour: 1e9, pointsPerMinute: 1e9, createdPerMinute: 1e9, createdPerHour: 1e9 }

let folder: string
let children: Child[]
beforeEach(() => {
  folder = folderForTest('github')
  children = []
})
afterEach(async () => {
  await Promise.all(children.map((child) => child.kill()))
})

function start(index: number, arena: Arena): void {
  const { url, repository, issue, pace, runMs, settleMs, ttlMs, holdMs } = arena
  const log = path.join(folder, `client-${index}.jsonl`)
  historyLog(log)[Symbol.dispose]()
  const names = [url, repository, issue, arena.token(index), log, `client-${index}`, pace]
  children.push(new Child('github-client', [...names, runMs, settleMs, ttlMs, holdMs].map(String)))
}

/** Lets eight processes compete for one issue; one is killed meanwhile, another stopped for longer than its lease. */
async function compete(arena: Arena): Promise<ReturnType<typeof checkHistory>['summary']> {
  const own = path.join(folder, 'faults.jsonl')
  const killed = historyLog(own)
  for (let index = 0; index < 8; index += 1) start(index, arena)
  for (const child of children) await child.line(/^open$/)
  await pause(arena.runMs / 3)
  // Written down before it happens: later would claim that the dead still held.
  killed.write({ type: 'crash', client: 'client-0' })
  await children[0]?.kill()
  killed.write({ type: 'pause', client: 'client-1' })
  children[1]?.process.kill('SIGSTOP')
  await pause(1.6 * arena.ttlMs)
  children[1]?.process.kill('SIGCONT')
  const codes = await Promise.all(children.slice(1).map((child) => child.ended()))
  killed[Symbol.dispose]()
  expect(codes, children.map(({ complaints }) => complaints).join('\n')).toEqual(codes.map(() => 0))
  const logs = [...children.keys()].map((index) => path.join(folder, `client-${index}.jsonl`))
  const { violations, summary } = checkHistory(readHistory([own, ...logs]), { fair: false })
  expect(violations).toEqual([])
  expect(summary.clients).toBe(8)
  expect(summary.holds).toBeGreaterThan(5)
  return summary
}

test(
  'eight processes that compete for one issue under stale reads and errors hold it one at a time',
  { timeout: 90_000 },
  async () => {
    const server = await GithubServer.start({ lagMs: 150, allowance: generous, openapi: new OpenApi() })
    const { github, url } = server
    github.user('a-person', 'admin')
    const random = seededRandom(7)
    let faults = 0
    github.fault = () => {
      if (random() >= 0.06) return undefined
      faults += 1
      return { status: random() < 0.5 ? 502 : 503, carriedOut: random() < 0.5 }
    }
    const token = (worker: number): string => {
      github.user(`worker-${worker}`, 'write', `token-${worker}`)
      return `token-${worker}`
    }
    try {
      const terms = { runMs: 14_000, settleMs: 200, ttlMs: 2500, holdMs: 50, pace: 'hasty' } as const
      const { repository } = github
      await compete({ url, repository, issue: github.openIssue('A task', 'a-person'), token, ...terms })
      expect(faults).toBeGreaterThan(10)
      expect(github.complaints).toEqual([])
    } finally {
      await server.stop()
    }
  },
)

if (process.env['GITHUB_REPO'] !== undefined) {
  test('eight processes hold an issue of the repository one at a time', { timeout: 1_800_000 }, async () => {
    const { testRepository } = await import('../support/github/repository.ts')
    const repository = await testRepository()
    const { name, url, token, settleMs } = repository
    const ttlMs = 10_000 + 5 * settleMs
    const terms = { runMs: 8 * ttlMs, settleMs, ttlMs, holdMs: 2000, pace: 'polite' } as const
    const summary = await compete({
      url,
      repository: name,
      issue: await repository.openIssue(),
      token: () => token,
      ...terms,
    })
    console.log(`${name}: ${summary.holds} holds of ${summary.clients} processes, one at a time`)
  })
}
