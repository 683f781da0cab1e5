import { expect } from 'vitest'
import { claimOf } from '../support/claims.ts'
import type { ClientProcess } from './processes.ts'

/** A lock goes from one process to another and back, and each is notified of its grant. */
export async function expectHandOver(here: ClientProcess, there: ClientProcess): Promise<void> {
  const first = claimOf('report', { id: 'first' })
  const second = claimOf('report', { id: 'second' })
  const third = claimOf('report', { id: 'third' })
  expect(await here.claim(first)).toMatchObject({ state: 'held' })
  expect(await there.claim(second)).toMatchObject({ state: 'waiting' })
  expect(await here.claim(third)).toMatchObject({ state: 'waiting' })
  await here.release(first)
  await expect.poll(() => there.received).toMatchObject([{ id: 'second', notification: { state: 'held' } }])
  await there.release(second)
  await expect.poll(() => here.received).toMatchObject([{ id: 'third', notification: { state: 'held' } }])
  expect(await here.release(third)).toMatchObject({ state: 'absent', reason: 'released' })
}
