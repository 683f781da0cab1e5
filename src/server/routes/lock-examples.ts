/** What the OpenAPI document shows of a lock. */
import type { Problem } from '../contract/problem.ts'
import type { LeaseDocument } from './lease-documents.ts'

/** The place of the lock, and the header that has its lease's id. */
export const lockExample = {
  namespace: 'default',
  name: 'orders/42',
  'Leasehold-Id': '5f0c1e9ab2d34f5e8a617c3b9d20e4f1',
}

/** A lease on it. */
export const leaseExample: LeaseDocument = {
  namespace: 'default',
  name: 'orders/42',
  id: '5f0c1e9ab2d34f5e8a617c3b9d20e4f1',
  fence: 1_790_000_000_000_118,
  ttlMs: 30_000,
  expiresInMs: 29_998,
  expiresAt: '2026-11-18T10:00:29.998Z',
  waitedMs: 4210,
}

/** Why there is none. */
export const problemExample: Problem = {
  type: 'urn:leasehold:HELD',
  title: 'Others hold the lock',
  status: 409,
  detail: '"orders/42" is held by others. Ask again later, or wait for it: wait=20s.',
  code: 'HELD',
  retryAfterMs: 1000,
}
