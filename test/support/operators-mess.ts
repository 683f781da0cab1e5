/**
 * A store as an operator finds it on a bad day: hundreds of locks in several namespaces, long queues, readers, permits, a deadlock, and
 * the leases of a process that has died. For tests and for the pictures of the docs.
 */
import { connect, type Lease, type Locks } from '../../src/index.ts'

export interface Mess extends AsyncDisposable {
  /** The names of the deadlocked locks. */
  readonly deadlocked: readonly [string, string]
  /** The lock whose holder no longer renews. */
  readonly abandoned: string
  /** The lock with the longest queue, and how many wait. */
  readonly contended: { readonly name: string; readonly waiting: number }
  /** How many locks the first namespace has. */
  readonly locks: number
}

export interface MessOptions {
  /** Locks of the first namespace that nobody waits for. */
  readonly quiet?: number
  readonly namespaces?: readonly [string, ...string[]]
}

const services = ['billing', 'search', 'mailer', 'reports', 'images'] as const
const contendedName = 'invoices/2026-11'
const queueLength = 24

/** Makes the mess in the store of the URL. Disposing of it lets everything go. */
export async function makeMess(url: string, options: MessOptions = {}): Promise<Mess> {
  const { quiet = 200, namespaces = ['default', 'staging', 'tools'] } = options
  const [first, ...others] = namespaces
  const opened: Locks[] = []
  const giveUp = new AbortController()
  const open = async (namespace: string, service: string, more: object = {}): Promise<Locks> => {
    const metadata = { service, user: service === 'reports' ? 'alice' : 'deploy' }
    const locks = await connect(url, { namespace, metadata, deadlockDetection: false, ...more })
    opened.push(locks)
    return locks
  }
  const wait = (asking: Promise<Lease> | undefined): void => void asking?.catch(() => {})
  const { signal } = giveUp
  const close = async (): Promise<void> => {
    giveUp.abort()
    await Promise.all(opened.map((locks) => locks.close()))
  }
  try {
    const clients = await Promise.all(services.map((service) => open(first, service)))
    const [billing, search, mailer, reports, images] = clients as [Locks, Locks, Locks, Locks, Locks]
    const names = Array.from({ length: quiet }, (_, index) => `orders/${index + 1}`)
    await Promise.all(names.map((name, index) => clients[index % clients.length]?.acquire(name, { ttl: '5m' })))
    for (const namespace of others) {
      const locks = await open(namespace, 'deployer')
      for (let index = 1; index <= 20; index += 1) await locks.acquire(`release/${index}`, { ttl: '5m' })
    }

    // A long queue, of several services.
    await reports.acquire(contendedName, { ttl: '5m' })
    for (let index = 0; index < queueLength; index += 1) {
      wait(
        [billing, search, mailer][index % 3]?.acquire(contendedName, {
          ttl: '5m',
          signal,
          owner: `month-end-${index}`,
        }),
      )
    }
    // Readers, and a writer that waits for them.
    await Promise.all([search, images, mailer].map((locks) => locks.readWrite('catalog').read({ ttl: '5m' })))
    wait(billing.readWrite('catalog').write({ ttl: '5m', signal }))
    // Permits, all taken.
    const downloads = (locks: Locks) => locks.semaphore('downloads', 3)
    for (let index = 0; index < 3; index += 1) await downloads(images).acquire({ ttl: '5m' })
    for (const locks of [search, mailer]) wait(downloads(locks).acquire({ ttl: '5m', signal }))

    // Two that wait for each other.
    const deadlocked = ['accounts/7', 'accounts/42'] as const
    await billing.acquire(deadlocked[0], { ttl: '5m', owner: 'transfer-7-to-42' })
    await mailer.acquire(deadlocked[1], { ttl: '5m', owner: 'statement-42' })
    wait(billing.acquire(deadlocked[1], { ttl: '5m', signal, owner: 'transfer-7-to-42' }))
    wait(mailer.acquire(deadlocked[0], { ttl: '5m', signal, owner: 'statement-42' }))

    // A lease that nobody renews, as of a process that has died, and a waiter.
    const abandoned = 'nightly-backup'
    const died = await open(first, 'backup')
    const lease = await died.acquire(abandoned, { ttl: abandonedTtlMs, heartbeat: 'manual' })
    await lease.handOff()
    wait(reports.acquire(abandoned, { ttl: '5m', signal }))
    await allWaiting(billing)
    return {
      deadlocked,
      abandoned,
      contended: { name: contendedName, waiting: queueLength },
      locks: quiet + 6,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Long enough to look at it, short enough to be silent soon. */
const abandonedTtlMs = 40_000
const waitersInAll = queueLength + 1 + 2 + 2 + 1

async function allWaiting(locks: Locks): Promise<void> {
  for (;;) {
    let waiting = 0
    let after: string | undefined
    do {
      const page = await locks.list({ limit: 500, ...(after !== undefined && { after }) })
      for (const lock of page.locks) waiting += lock.waiting
      after = page.next
    } while (after !== undefined)
    if (waiting === waitersInAll) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
