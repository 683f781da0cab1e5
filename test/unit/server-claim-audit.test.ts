import { expect, test } from 'vitest'
import { AuditLog, type AuditRecord } from '../../src/server/audit/audit-log.ts'
import { ClaimAudit } from '../../src/server/audit/claim-audit.ts'
import type { Caller } from '../../src/server/contract/call.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'

test('the waiting claims of one token do not keep the grants of others out of the audit', async () => {
  const lines: AuditRecord[] = []
  const file = {
    write: (line: string) => void lines.push(JSON.parse(line) as AuditRecord),
    reopen: async () => {},
    close: async () => {},
  }
  const log = new AuditLog(file, fakeTime().environment)
  const audit = new ClaimAudit(log, { withRenewals: false, waitingMax: 10 })
  const waits = (name: string, key: string) => {
    const caller = { principal: { name }, address: '10.0.0.1' } as unknown as Caller
    const claim = claimOf(key)
    audit.answered(caller, { op: 'claim', claim }, { state: 'waiting', ahead: 0, ttlMs: 1000, againMs: 1000 })
    return claim
  }
  const claim = waits('victim', 'victim/named:a')
  for (let count = 0; count < 50; count += 1) waits('hostile', `hostile/named:${count}`)
  audit.notified(claim.key, claim.id, { state: 'held', fence: 7, ttlMs: 1000 })
  await log.close(0)
  expect(lines.filter(({ event }) => event === 'grant')).toEqual([expect.objectContaining({ by: 'victim', fence: 7 })])
})
