/**
 * What operators find on a bad day, on the store of the URL it is given: hundreds of locks in five namespaces, long queues, readers behind a
 * writer, permits that are all taken, a deadlock, a holder that died, and traffic. Says `ready` and goes on until it is killed.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type Locks } from '../../src/index.ts'
import { driverFor } from '../../src/api/stores/connect-driver.ts'
import { claim, claimOf } from '../support/claims.ts'

const [url = 'memory:', perNamespace = '60'] = process.argv.slice(2)
const clients: Locks[] = []

/** Acquisitions that wait until the end, whatever becomes of them. */
function inBackground(...promises: readonly Promise<unknown>[]): void {
  for (const promise of promises) promise.catch(() => {})
}

async function client(namespace: string, service: string, user = 'deploy'): Promise<Locks> {
  const metadata = { service, user, command: `${service} --region eu` }
  const locks = await connect(url, { namespace, metadata, deadlockDetection: false, defaults: { ttl: '20s' } })
  clients.push(locks)
  return locks
}

/** Hundreds of locks that nobody waits for. */
async function calm(namespace: string, service: string, kinds: readonly string[]): Promise<Locks> {
  const locks = await client(namespace, service)
  const names = Array.from({ length: Number(perNamespace) }, (_, at) => `${kinds[at % kinds.length]}/${1000 + at * 7}`)
  await Promise.all(names.map((name) => locks.acquire(name)))
  return locks
}

async function longQueue(): Promise<void> {
  const importer = await client('shop', 'stock-importer', 'alice')
  await importer.acquire('stock/nightly-sync')
  const [workers, api] = [await client('shop', 'order-worker'), await client('shop', 'checkout-api')]
  inBackground(...Array.from({ length: 38 }, () => workers.acquire('stock/nightly-sync')))
  await pause(300)
  inBackground(...Array.from({ length: 9 }, () => api.acquire('stock/nightly-sync')))
}

async function readers(): Promise<void> {
  const catalogue = (await client('shop', 'catalogue-api')).readWrite('catalogue')
  await Promise.all(Array.from({ length: 12 }, () => catalogue.read()))
  inBackground((await client('shop', 'catalogue-builder', 'bob')).readWrite('catalogue').write())
  await pause(300)
  inBackground(...Array.from({ length: 6 }, () => catalogue.read()))
}

async function permits(): Promise<void> {
  const encoders = (await client('media', 'encoder')).semaphore('gpu', 4)
  await Promise.all(Array.from({ length: 4 }, () => encoders.acquire()))
  inBackground(...Array.from({ length: 11 }, () => encoders.acquire()))
}

/** Each of three has one lock and waits for that of the next. */
async function deadlock(): Promise<void> {
  const names = ['ledger', 'invoices', 'payouts']
  const owners = await Promise.all(
    names.map(async (name) => ({ name, locks: await client('billing', `${name}-job`, 'carol') })),
  )
  await Promise.all(owners.map(({ name, locks }) => locks.acquire(name, { owner: `close-${name}` })))
  for (const [at, { name, locks }] of owners.entries()) {
    inBackground(locks.acquire(names[(at + 1) % names.length] ?? name, { owner: `close-${name}` }))
  }
}

/** Claims that nobody renews, as of a process that was killed. */
async function deadHolders(): Promise<void> {
  const driver = await driverFor(url)
  await driver.open()
  const runner = (pid: number) => ({
    ...claimOf('').runner,
    id: `runner_1700000000000_0a1b2c3d_${pid}`,
    host: 'export-3',
    pid,
    metadata: { service: 'invoice-export', user: 'cron', command: 'invoice-export --all' },
  })
  for (const [at, ttlMs] of [60_000, 240_000].entries()) {
    const key = `billing/named:export/${at + 1}`
    await claim(driver, claimOf(key, { ttlMs, runner: runner(4711 + at) }))
  }
  await driver.close()
  const waiting = await client('billing', 'invoice-mailer')
  inBackground(...Array.from({ length: 5 }, (_, at) => waiting.acquire(`export/${1 + (at % 2)}`)))
}

/** Short holds of a few names, so that there is something to count. */
async function traffic(): Promise<void> {
  const all = [await client('search', 'indexer'), await client('search', 'crawler', 'dave')]
  for (;;) {
    await Promise.all(
      all.map(async (locks) => {
        const name = `shard/${Math.floor(Math.random() * 6)}`
        await locks.run(name, async () => pause(50 + Math.random() * 400)).catch(() => {})
      }),
    )
  }
}

await Promise.all([
  calm('shop', 'cart-api', ['cart', 'coupon']),
  calm('billing', 'invoice-api', ['invoice', 'customer']),
  calm('media', 'thumbnailer', ['image']),
  calm('builds', 'ci', ['branch', 'cache', 'release']),
  calm('search', 'indexer', ['document']),
])
await Promise.all([longQueue(), readers(), permits(), deadlock(), deadHolders()])
inBackground(traffic(), traffic())
console.log('ready')
