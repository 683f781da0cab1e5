import { Octokit } from '@octokit/core'
import { expect, test } from 'vitest'
import { trustedUntil } from '../../src/core/time/deadline.ts'
import { github } from '../../src/drivers/github/driver.ts'
import { World } from '../../src/testing/simulation/world.ts'
import { claim, claimOf, fenceOf, release, renew } from '../support/claims.ts'
import { asFetch } from '../support/github/as-fetch.ts'
import { FakeGithub } from '../support/github/fake-github.ts'
import { silent } from '../support/github/github-harness.ts'

const leaseMs = 300_000
const shorterMs = 60_000

/** Two drivers on one issue, and a reader with the first of them. `onEdit`: is told that GitHub carries out an edit of its. */
async function scene() {
  const world = new World(7)
  const begin = Date.parse('2026-01-01T00:00:00Z')
  const fake = new FakeGithub({ now: () => begin + world.now, lagMs: 4000, seed: 7 })
  const line: { onEdit?: (() => void) | undefined } = {}
  const driverOf = async (login: string) => {
    fake.user(login, 'write', login)
    const travel = async (leg: 'there' | 'back', method: string): Promise<void> => {
      const { onEdit } = line
      if (login !== 'first' || leg === 'there' || method !== 'PATCH' || onEdit === undefined) return world.wait(50)
      line.onEdit = undefined
      onEdit()
      await world.wait(15_000)
    }
    const octokit = new Octokit({ auth: login, request: { fetch: asFetch(fake, { travel }) }, log: silent })
    const driver = github(fake.repository, {
      octokit,
      environment: world.environment(),
      assign: false,
      heldLabel: false,
    })
    await driver.open()
    return driver
  }
  fake.user('someone', 'admin')
  const key = `default/issue:${fake.openIssue('A task', 'someone')}`
  const run = async <Result>(work: Promise<Result>): Promise<Result> => {
    await world.run(work.catch(() => {}))
    return work
  }
  const [first, second] = [await run(driverOf('first')), await run(driverOf('second'))]
  const lease = claimOf(key, { mode: 'shared', ttlMs: leaseMs })
  fenceOf(await run(claim(first, lease)))
  return { world, line, key, run, first, second, lease }
}

const upgradeOf = ({ key, id }: { readonly key: string; readonly id: string }) =>
  claimOf(key, { replaces: id, ttlMs: shorterMs })

/** Asks until the claim is held; resolves to the time of that. */
async function heldAt({ world, run, second, key }: Awaited<ReturnType<typeof scene>>): Promise<number> {
  const next = claimOf(key, { ttlMs: 3_600_000 })
  for (;;) {
    const status = await run(claim(second, next))
    if (status.state === 'held') return world.now
    if (status.state !== 'waiting') throw new Error(`Not waiting: ${JSON.stringify(status)}`)
    await world.pass(1000)
  }
}

test.each(['is lost', 'and those to its renewals are lost'])(
  'an upgrade for a shorter time lasts as long as the lease it replaced, if the answer that grants it %s',
  async (answer) => {
    const stage = await scene()
    const { world, run, first, lease } = stage
    const renewedAt = world.now
    expect((await run(renew(first, { ...lease, ttlMs: leaseMs - 1 }))).state).toBe('held')
    const upgrade = upgradeOf(lease)
    // The owner hears nothing of this, and trusts its lease.
    expect((await run(claim(first, upgrade))).state).toBe('held')
    if (answer !== 'is lost') expect((await run(renew(first, upgrade))).state).toBe('held')
    expect(await heldAt(stage)).toBeGreaterThanOrEqual(trustedUntil(renewedAt, leaseMs - 1))
  },
)

test('a lease is renewed no more once its conversion is being granted, so that nobody trusts it from then on', async () => {
  const { line, run, first, lease } = await scene()
  const upgrade = upgradeOf(lease)
  const isGranting = new Promise<void>((resolve) => (line.onEdit = resolve))
  const granting = claim(first, upgrade)
  await run(isGranting)
  // Readings need not show the grant yet, whose own reply is on its way for long.
  for (let renewal = 1; renewal <= 3; renewal += 1) {
    expect(await run(renew(first, lease))).toMatchObject({ state: 'absent', reason: 'unknown' })
  }
  expect((await run(granting)).state).toBe('held')
  expect((await run(release(first, upgrade))).state).toBe('absent')
})

test('a conversion that ends before it is granted leaves the lease as it was', async () => {
  const stage = await scene()
  const { run, first, second, key, lease } = stage
  const other = claimOf(key, { mode: 'shared', ttlMs: leaseMs })
  fenceOf(await run(claim(second, other)))
  const upgrade = upgradeOf(lease)
  expect((await run(claim(first, upgrade))).state).toBe('waiting')
  expect((await run(release(first, upgrade))).state).toBe('absent')
  expect((await run(renew(first, lease))).state).toBe('held')
})
