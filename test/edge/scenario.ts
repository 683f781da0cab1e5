/** What a client goes through, played where there is no Node: in a worker of workerd and in a page of Chromium. */
import { createLocks } from '../../src/api/create-locks.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { connect } from '../../src/edge/index.ts'
import type { LeaseholdError } from '../../src/core/errors.ts'

/** The server's URL and our token. */
export interface Stage {
  readonly url: string
  readonly token: string
}

/** What happened, for a test to compare. */
export interface Story {
  /** Modules of Node that the client could find. */
  readonly hasNode: boolean
  readonly runner: { readonly host: string; readonly pid: number }
  /** In the order in which the lock changed hands. */
  readonly fences: readonly number[]
  readonly whileHeld: unknown
  readonly waiters: number
  readonly renewals: number
  readonly evicted: Loss
  readonly expired: Loss
  readonly ranWith: string
  readonly small: { readonly fence: number; readonly others: unknown; readonly released: unknown }
  readonly refusals: Readonly<Record<string, string>>
  /** Whether every claim is gone in the end, also that of an acquire that timed out. */
  readonly isEmptied: boolean
}

interface Loss {
  readonly code: string | undefined
  readonly reason: string | undefined
  readonly held: boolean
}

export async function play(stage: Stage): Promise<Story> {
  const open = () => createLocks({ driver: http(stage), allowForce: true })
  const [locks, rival] = [await open(), await open()]
  const small = await connect(stage)
  try {
    const first = await locks.acquire('orders/42', { ttl: '15s' })
    const whileHeld = await rival.tryAcquire('orders/42')
    const waiting = rival.acquire('orders/42', { ttl: '15s', wait: '60s' })
    const waiters = await until(async () => (await locks.inspect('orders/42'))?.waiters.length)
    await first.release()
    const second = await waiting

    let renewals = 0
    rival.on('renewed', () => (renewals += 1))
    second.startHeartbeat('100ms')
    await until(() => renewals)

    const evicted = lossOf(second)
    await locks.evict('orders/42', { reason: 'the test says so' })

    // Longer than a busy machine takes to bring the answer.
    const third = await locks.acquire('orders/42', { ttl: '4s', heartbeat: 'manual' })
    const expired = await lossOf(third)

    const ranWith = await locks.run('orders/42', async (lease) => `${lease.fence}`)

    const lease = await small.acquire('orders/42', { ttl: '15s' })
    const contended = await rival.tryAcquire('orders/42')
    await lease.renew()
    const released = await (await lease.downgrade()).release()
    const isEmptied = async (): Promise<boolean> =>
      (await until(async () => ((await locks.list()).locks.length === 0 ? 1 : 0))) === 1
    const refusals = {
      wrongToken: await codeOf(connect({ ...stage, token: 'nobody-knows-this-token' })),
      convert: await codeOf(lease.upgrade()),
      ca: await codeOf((async () => http({ ...stage, ca: 'PEM' }))()),
      timeout: await small.run('orders/43', () => codeOf(locks.acquire('orders/43', { wait: '500ms' }))),
    }
    return {
      hasNode: (globalThis as { process?: unknown }).process !== undefined,
      runner: { host: locks.runner.host, pid: locks.runner.pid },
      fences: [first.fence, second.fence, third.fence, Number(ranWith), lease.fence],
      whileHeld,
      waiters,
      renewals,
      evicted: await evicted,
      expired,
      ranWith,
      small: { fence: lease.fence, others: contended, released },
      refusals,
      isEmptied: await isEmptied(),
    }
  } finally {
    await Promise.all([locks.close(), rival.close(), small.close()])
  }
}

function lossOf(lease: { readonly signal: AbortSignal; readonly held: boolean }): Promise<Loss> {
  return new Promise((resolve) => {
    const tell = (): void => {
      const { code, reason } = lease.signal.reason as LeaseholdError
      resolve({ code, reason, held: lease.held })
    }
    if (lease.signal.aborted) tell()
    else lease.signal.addEventListener('abort', tell)
  })
}

async function codeOf(refused: Promise<unknown>): Promise<string> {
  return refused.then(
    () => 'not refused',
    (error: LeaseholdError) => `${error.code} ${error.reason ?? ''}`.trim(),
  )
}

/** Calls `read` until it returns a number above 0. */
async function until(read: () => number | undefined | Promise<number | undefined>): Promise<number> {
  for (let tries = 0; tries < 1000; tries += 1) {
    const found = await read()
    if (found !== undefined && found > 0) return found
    await new Promise((resolve) => void setTimeout(resolve, 20))
  }
  throw new Error('What was waited for did not come.')
}
