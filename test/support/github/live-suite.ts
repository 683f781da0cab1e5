import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLocks } from '../../../src/api/create-locks.ts'
import type { Locks } from '../../../src/api/locks.ts'
import { issue, type Scope } from '../../../src/core/scope.ts'
import type { GithubDriver } from '../../../src/drivers/github.ts'

/** What the suite needs of a repository, real or not. */
export interface LiveRepository {
  /** A driver for one of two workers. */
  driver(worker: 0 | 1): GithubDriver
  /** Opens an issue to lock; it may stay. */
  openIssue(): Promise<number>
  close(): Promise<void>
}

/** Reads may be stale: what they show in the end counts. */
function soon<Seen>(look: () => Promise<Seen>) {
  return expect.poll(look, { timeout: 20_000, interval: 500 })
}

/** What every repository must show. It takes its time: GitHub wants a second between two writes. */
export function liveSuite(name: string, open: () => Promise<LiveRepository>, testMs: number): void {
  describe(name, { timeout: testMs }, () => {
    let repository: LiveRepository
    let first: Locks
    let second: Locks
    let driver: GithubDriver
    let scope: Scope
    let number: number
    beforeAll(async () => {
      repository = await open()
      driver = repository.driver(0)
      first = await createLocks({ driver })
      second = await createLocks({ driver: repository.driver(1) })
      number = await repository.openIssue()
      scope = issue(number)
    }, testMs)
    afterAll(async () => {
      await Promise.all([first, second].map((locks) => locks.close()))
      await repository.close()
    }, testMs)

    test('an issue is locked by one alone, and passes on with a higher fence', async () => {
      const lease = await first.acquire(scope)
      expect(await second.tryAcquire(scope)).toBeNull()
      await soon(() => driver.status(number)).toMatchObject({ locked: true })
      const waiting = second.acquire(scope)
      await lease.renew()
      expect(lease.held).toBe(true)
      await lease.release()
      const next = await waiting
      expect(next.fence).toBeGreaterThan(lease.fence)
      await next.release()
      await soon(() => driver.status(number)).toMatchObject({ locked: false })
    })

    test('a name has one issue for everybody', async () => {
      const fences = await Promise.all(
        [first, second].map((locks) => locks.run('leasehold-live-suite', async (lease) => lease.fence)),
      )
      expect(new Set(fences).size).toBe(2)
      await soon(() => first.inspect('leasehold-live-suite')).toBeNull()
    })

    test('who gives up waiting leaves no claim', async () => {
      const lease = await first.acquire(scope)
      await expect(second.acquire(scope, { wait: 8000 })).rejects.toMatchObject({ code: 'TIMEOUT' })
      await lease.release()
      await soon(() => first.inspect(scope)).toBeNull()
    })
  })
}
