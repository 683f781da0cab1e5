import { claimDocument, lockInfo, type ClaimInfo } from '../../api/operators/inspection.ts'
import type { ListedKey, Runner } from '../../core/contract/driver.ts'
import type { OperatorsClaim, OperatorsLock, RunnerDocument } from '../../dashboard/documents.ts'
import { namespaceOf } from '../auth/rights.ts'

/** A command line may be long, and there are many events. */
const labelLengthMax = 100

/** A key as operators see it. `storeNow` is the store's clock when it was read, `wall` ours. */
export function lockDocument(listed: ListedKey, storeNow: number, wall: number): OperatorsLock {
  const { scope, key, holders, waiters, held, waiting } = lockInfo(listed, storeNow, wall)
  const view = (claim: ClaimInfo): OperatorsClaim => claimDocumentWithAges(claim, wall)
  return {
    namespace: namespaceOf(key),
    scope,
    key,
    held,
    waiting,
    holders: holders.map(view),
    waiters: waiters.map(view),
  }
}

function claimDocumentWithAges(claim: ClaimInfo, wall: number): OperatorsClaim {
  const ageMs = (date: Date): number => Math.max(0, Math.round(wall - date.getTime()))
  return {
    ...claimDocument(claim),
    sinceMs: ageMs(claim.acquiredAt ?? claim.enteredAt),
    lastHeartbeatMs: ageMs(claim.lastHeartbeat),
  }
}

/** Who it is, with no more of what it says about itself than people know it by. */
export function runnerDocument({ id, host, pid, metadata }: Runner): RunnerDocument {
  const known = ['user', 'command'].flatMap((name) => {
    const value = metadata?.[name]
    return typeof value === 'string' ? [[name, value.slice(0, labelLengthMax)]] : []
  })
  return { id, host, pid, metadata: Object.fromEntries(known) as Record<string, string> }
}
