import { openLocks } from '../../src/api/create-locks.ts'
import type { LockDriver, Request } from '../../src/core/contract/driver.ts'
import type { OpenLocks } from './schedules.ts'

/** A planted fault, to show that schedules find it and that shrinking leaves what it needs: the store keeps leases for half their ttl. */
export const openWithShortLeases: OpenLocks = (setup) => openLocks({ ...setup, driver: keptTooShort(setup.driver) })

function keptTooShort(driver: LockDriver): LockDriver {
  const short: LockDriver = Object.create(driver) as LockDriver
  short.send = async (requests) => {
    const statuses = await driver.send(requests.map(halved))
    return statuses.map((status) => (status.state === 'held' ? { ...status, ttlMs: status.ttlMs * 2 } : status))
  }
  return short
}

function halved(request: Request): Request {
  if (request.op === 'renew') return { ...request, ttlMs: request.ttlMs / 2 }
  return request.op === 'claim' ? { ...request, claim: { ...request.claim, ttlMs: request.claim.ttlMs / 2 } } : request
}
