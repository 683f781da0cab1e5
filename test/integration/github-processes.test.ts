import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkHistory, historyLog, readHistory } from '../../src/testing/index.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { Child } from '../support/child.ts'
import { GithubServer } from '../support/github/github-server.ts'
import { OpenApi } from '../support/github/openapi.ts'

const lagMs = 150
const settleMs = 200
const generous = { requestsPerHour: 1e9, pointsPerMinute: 1e9, createdPerMinute: 1e9, createdPerHour: 1e9 }

let server: GithubServer
let folder: string
let children: Child[]
beforeEach(async () => {
  server = await GithubServer.start({ lagMs, allowance: generous, openapi: new OpenApi() })
  folder = mkdtempSync(path.join(tmpdir(), 'leasehold-github-'))
  children = []
})
afterEach(async () => {
  await Promise.all(children.map((child) => child.kill()))
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

function start(index: number, issue: number, runMs: number): void {
  const { github, url } = server
  github.user(`worker-${index}`, 'write', `token-${index}`)
  const log = path.join(folder, `client-${index}.jsonl`)
  historyLog(log)[Symbol.dispose]()
  const words = [url, github.repository, issue, `token-${index}`, log, `client-${index}`, runMs, settleMs]
  children.push(new Child('github-client', words.map(String)))
}

function logs(): string[] {
  return [...children.keys()].map((index) => path.join(folder, `client-${index}.jsonl`))
}

test(
  'eight processes that compete for one issue under stale reads and errors hold it one at a time',
  { timeout: 90_000 },
  async () => {
    const runMs = 14_000
    const { github } = server
    github.user('a-person', 'admin')
    const issue = github.openIssue('A task', 'a-person')
    const random = seededRandom(7)
    let faults = 0
    github.fault = () => {
      if (random() >= 0.06) return undefined
      faults += 1
      return { status: random() < 0.5 ? 502 : 503, carriedOut: random() < 0.5 }
    }
    const own = path.join(folder, 'faults.jsonl')
    const killed = historyLog(own)
    for (let index = 0; index < 8; index += 1) start(index, issue, runMs)
    await pause(runMs / 3)
    // Written down before it happens: later would claim that the dead still held.
    killed.write({ type: 'crash', client: 'client-0' })
    await children[0]?.kill()
    killed.write({ type: 'pause', client: 'client-1' })
    children[1]?.process.kill('SIGSTOP')
    await pause(4000)
    children[1]?.process.kill('SIGCONT')
    const codes = await Promise.all(children.slice(1).map((child) => child.ended()))
    killed[Symbol.dispose]()
    expect(codes, children.map(({ complaints }) => complaints).join('\n')).toEqual(codes.map(() => 0))
    const { violations, summary } = checkHistory(readHistory([own, ...logs()]), { fair: false })
    expect(violations).toEqual([])
    expect(summary.holds).toBeGreaterThan(5)
    expect(summary.clients).toBe(8)
    expect(faults).toBeGreaterThan(10)
    expect(github.complaints).toEqual([])
  },
)
