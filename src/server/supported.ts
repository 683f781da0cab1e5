import type { Request, Supports } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { evictionFault, faultOf, type Fault } from '../core/limits.ts'
import { wrong } from './fields.ts'

/**
 * Why the store behind cannot carry out the request at this place of a call; undefined if it can. A client of ours asks for
 * nothing of that, unless the store takes less than it did; others get to know.
 */
export function unsupportedIn(request: Request, index: number, supports: Supports): LeaseholdError | undefined {
  const fault = faultOf(request, supports)
  return fault && refusalFor(`requests[${index}]`, fault)
}

/** Refuses an eviction where none can be carried out, rather than to answer that nobody held the lock. */
export function checkEvictable(supports: Supports, where: string): void {
  const fault = evictionFault(supports)
  if (fault !== undefined) throw refusalFor(where, fault)
}

function refusalFor(where: string, fault: Fault): LeaseholdError {
  if (fault.code === 'INVALID') return wrong(`${where}: ${fault.field}`, fault.what)
  return new LeaseholdError('UNSUPPORTED', `${where}: the store behind this server cannot do ${fault.what}.`)
}
