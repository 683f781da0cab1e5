import { openLocks } from '../../src/api/create-locks.ts'
import type { LockDriver, Request } from '../../src/core/contract/driver.ts'
import type { OpenLocks } from './schedules.ts'

/** A planted fault, to show that schedules find it: the store keeps leases for half their ttl. */
export const openWithShortLeases: OpenLocks = (setup) => openLocks({ ...setup, driver: keptTooShort(setup.driver) })

function keptTooShort(driver: LockDriver): LockDriver {
  const short = Object.create(driver) as LockDriver
  short.send = async (requests) => {
    const statuses = await driver.send(requests.map(halved))
    return statuses.map((status) => (status.state === 'held' ? { ...status, ttlMs: status.ttlMs * 2 } : status))
  }
  return short
}

function halved(request: Request): Request {
  if (request.op === 'renew') return { ...request, ttlMs: half(request.ttlMs) }
  return request.op === 'claim'
    ? { ...request, claim: { ...request.claim, ttlMs: half(request.claim.ttlMs) } }
    : request
}

function half(ttlMs: number): number {
  return Math.ceil(ttlMs / 2)
}
