/** Hostile tenants against a real server with little memory: a short slice of `npm run prove -- abuse`. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { AbusedServer, attacks, workAsVictim, type Attack } from '../support/abused-server.ts'
import { isLong } from '../support/extent.ts'

const heapMb = 256
/** What the process takes beside its heap: code, buffers and answers on their way. */
const besideHeapMb = 350
const pairs = 40

/** One of each kind; all twelve by `npm run test:all`. */
const someAttacks: readonly Attack[] = [
  'never reading',
  'bodies without end',
  'flood',
  'largest claims',
  'floors',
  'streams',
]
const chosen = isLong ? attacks : someAttacks

describe('while a hostile tenant attacks, another works, and the server keeps its memory', () => {
  test.each(chosen.map((attack) => [attack]))('%s', async (attack) => {
    const server = await AbusedServer.start(heapMb, ['--token-rate', '500/1000'])
    onTestFinished(() => server.stop())
    const tenant = await server.attack(attack)
    onTestFinished(() => tenant.stop())
    const { succeeded, failed } = await workAsVictim(server.url, (made) => made < pairs)
    expect({ failed, succeeded, isRunning: server.isRunning }).toEqual({
      failed: [],
      succeeded: pairs,
      isRunning: true,
    })
    expect(server.rssPeakMb).toBeLessThan(heapMb + besideHeapMb)
  })
})
