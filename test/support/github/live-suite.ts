import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLocks } from '../../../src/api/create-locks.ts'
import type { Locks } from '../../../src/api/locks.ts'
import { issue, type Scope } from '../../../src/core/contract/scope.ts'
import { forTask, type GithubDriver } from '../../../src/drivers/github/driver.ts'
import { claimIn } from '../../../src/drivers/github/protocol/claim-comment.ts'
import type { TestRepository } from './repository.ts'

/** Reads may be stale: polls until the expectation holds. */
function soon<Seen>(read: () => Promise<Seen>) {
  return expect.poll(read, { timeout: 60_000, interval: 200 })
}

/** What users and people see of locks in a repository, whichever it is. */
export function liveSuite({ name, isReal, octokit, ...repository }: TestRepository): void {
  const timeout = isReal ? 120_000 + 20 * repository.settleMs : 120_000
  describe(`locks in ${isReal ? name : 'a repository of our own'}`, { timeout }, () => {
    let first: Locks
    let second: Locks
    let driver: GithubDriver
    let scope: Scope
    let number: number
    const [owner = '', repo = ''] = name.split('/')
    const at = () => ({ owner, repo, issue_number: number })
    beforeAll(async () => {
      // As a user has it, with octokit's plugins.
      driver = repository.driver({ workerId: 'first' })
      first = await createLocks({ driver })
      second = await createLocks({ driver: repository.quickDriver({ workerId: 'second' }), allowForce: true })
      number = await repository.openIssue()
      scope = issue(number)
    })
    afterAll(async () => {
      await Promise.all([first, second].map((locks) => locks.close()))
    })

    const comment = async (id: number): Promise<string> => {
      const route = 'GET /repos/{owner}/{repo}/issues/{issue_number}/comments'
      const { data } = await octokit.request(route, { ...at(), per_page: 100 })
      return data.find((listed) => listed.id === id)?.body ?? ''
    }

    test('an issue is locked by one alone, people see by whom, and it passes on with a higher fence', async () => {
      await using lease = await first.acquire(scope, forTask({ complexity: 5, task_type: 'bug-fix' }))
      expect(await second.tryAcquire(scope)).toBeNull()
      await soon(() => driver.status(number)).toMatchObject({
        locked: true,
        by: 'first',
        metadata: { taskInfo: { complexity: 5 } },
      })
      await soon(() => comment(lease.fence)).toContain('**`first`** holds this lock since')
      const waiting = second.acquire(scope)
      await lease.renew()
      expect(lease.held).toBe(true)
      driver.conclude(lease.fence, 'merged')
      await lease.release()
      await using next = await waiting
      expect(next.fence).toBeGreaterThan(lease.fence)
      await soon(async () => claimIn(await comment(lease.fence))?.completion?.result).toBe('merged')
      await next.release()
      await soon(() => driver.status(number)).toMatchObject({ locked: false })
    })

    test('a name has one issue for everybody', async () => {
      const deploy = `deploy-${crypto.randomUUID()}`
      const fences = await Promise.all([first, second].map((locks) => locks.run(deploy, async (lease) => lease.fence)))
      expect(new Set(fences).size).toBe(2)
      await soon(() => first.inspect(deploy)).toBeNull()
    })

    test('who gives up waiting leaves no claim, and force takes the lock with its signs', async () => {
      await using lease = await first.acquire(scope)
      // Time for a comment to be written.
      const wait = isReal ? 10_000 + 2 * repository.settleMs : 5000
      await expect(second.acquire(scope, { wait })).rejects.toMatchObject({ code: 'TIMEOUT' })
      await using forced = await second.acquire(scope, { onConflict: 'force' })
      await expect(lease.renew()).rejects.toMatchObject({ code: 'NOT_HELD' })
      await soon(async () => {
        const held = { owner, repo, labels: 'leasehold: held' }
        const { data } = await octokit.request('GET /repos/{owner}/{repo}/issues', held)
        return data.find((listed) => listed.number === number)?.assignees?.length
      }).toBe(1)
      await forced.release()
      await soon(() => first.inspect(scope)).toBeNull()
    })

    test('a lease is handed from one process to another', async () => {
      await using lease = await second.acquire(scope)
      await using resumed = await first.resume(await lease.handOff())
      expect(resumed.fence).toBe(lease.fence)
      expect(await second.tryAcquire(scope)).toBeNull()
      expect(await resumed.release()).toEqual({ released: true })
    })
  })
}
