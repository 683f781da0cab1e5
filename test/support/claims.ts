import { randomUUID } from 'node:crypto'
import type { Claim, LockDriver, Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import { eventually } from './eventually.ts'

/** A claim with defaults for all that the test does not set. */
export function claimOf(key: string, wish: Partial<Claim> = {}): Claim {
  const runner = { id: 'runner', incarnation: 'one', host: 'here', pid: process.pid, client: 'client' }
  return {
    id: randomUUID(),
    key,
    mode: 'exclusive',
    priority: 0,
    wait: true,
    ttlMs: 60_000,
    graceMs: 0,
    runner,
    ...wish,
  }
}

/** Sends one request. */
export async function ask(driver: LockDriver, request: Request): Promise<ClaimStatus> {
  const [status] = await driver.send([request])
  if (status === undefined) throw new Error('The driver gave no answer.')
  return status
}

/** Sends a claim. */
export function claim(driver: LockDriver, wanted: Claim): Promise<ClaimStatus> {
  return ask(driver, { op: 'claim', claim: wanted })
}

/** Renews a claim for its own ttl. */
export function renew(driver: LockDriver, { key, id, ttlMs }: Claim): Promise<ClaimStatus> {
  return ask(driver, { op: 'renew', key, id, ttlMs })
}

/** Releases a claim. */
export function release(driver: LockDriver, { key, id }: Claim): Promise<ClaimStatus> {
  return ask(driver, { op: 'release', key, id })
}

/** The request that makes a claim. */
export function claiming(wanted: Claim): Request {
  return { op: 'claim', claim: wanted }
}

/** The fence of a claim that is held; any other status is an error. */
export function fenceOf(status: ClaimStatus | undefined): number {
  if (status?.state !== 'held') throw new Error(`Not held: ${JSON.stringify(status)}`)
  return status.fence
}

/** Repeats a call that rejects, or whose outcome is unknown, until the store answers. */
export function untilAnswered(call: () => Promise<ClaimStatus>, withinMs?: number): Promise<ClaimStatus> {
  const known = (status: ClaimStatus): ClaimStatus | false => status.state !== 'unknown' && status
  return eventually(() => call().then(known, () => false), 'an answer of the store', withinMs)
}
