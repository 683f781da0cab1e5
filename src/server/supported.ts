import type { Request, Supports } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { evictionFault, faultOf, type Fault } from '../core/limits.ts'
import { wrong } from './fields.ts'

/** Refuses what the store behind cannot do. A client of ours asks for nothing of that; others get to know. */
export function checkSupported(requests: readonly Request[], supports: Supports): void {
  for (const [index, request] of requests.entries()) refuse(`requests[${index}]`, faultOf(request, supports))
}

/** Refuses an eviction where none can be carried out, rather than to answer that nobody held the lock. */
export function checkEvictable(supports: Supports, where: string): void {
  refuse(where, evictionFault(supports))
}

function refuse(where: string, fault: Fault | undefined): void {
  if (fault === undefined) return
  if (fault.code === 'INVALID') throw wrong(`${where}: ${fault.field}`, fault.what)
  throw new LeaseholdError('UNSUPPORTED', `${where}: the store behind this server cannot do ${fault.what}.`)
}
