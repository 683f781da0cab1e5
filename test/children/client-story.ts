/**
 * One short life of a client in a process of its own, for tests of what only a process can show.
 * Arguments: the story, the store's URL.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { connect, type Locks } from '../../src/index.ts'
import { aborted } from '../support/aborted.ts'

const [story = '', url = ''] = process.argv.slice(2)
process.on('unhandledRejection', (error) => {
  console.log(`unhandled: ${String(error)}`)
  process.exit(99)
})

const stories: Record<string, () => Promise<void>> = {
  /** Holds a lock and has nothing else to do. */
  async 'hold and end'() {
    const locks = await connect(url)
    await locks.acquire('a')
    console.log('holding')
  },

  async 'hold with a heartbeat thread and end'() {
    const locks = await connect(url, { heartbeatThread: true })
    await locks.acquire('a')
    console.log('holding')
  },

  /** Waits for a lock that is held elsewhere, and has nothing else to do. */
  async wait() {
    const locks = await connect(url)
    console.log('waiting')
    const lease = await locks.acquire('a')
    console.log(`granted ${lease.fence}`)
    await locks.close()
  },

  /** Comes, tries a lock, and goes. */
  async try() {
    const locks = await connect(url)
    console.log((await locks.tryAcquire('a')) === null ? 'refused' : 'granted')
    await locks.close()
  },

  'two clients': () => holdAmongOthers(async () => (await connect(url), connect(url))),
  'a heartbeat thread': () => holdAmongOthers(() => connect(url, { heartbeatThread: true })),
  'a client that was closed before': () =>
    holdAmongOthers(async () => (await (await connect(url)).close(), connect(url))),

  /** Blocks the event loop for twice the ttl. */
  async block() {
    for (const heartbeatThread of [false, true]) {
      const locks = await connect(url, { heartbeatThread })
      const lease = await locks.acquire(`blocked ${heartbeatThread}`, { ttl: 2500 })
      const until = performance.now() + 5000
      while (performance.now() < until);
      console.log(
        `thread ${heartbeatThread}: held ${lease.held}, fence kept ${(await locks.status(lease.scope)).fence === lease.fence}`,
      )
      await locks.close()
    }
  },

  /** Takes a lock under a runner name and says so; is then killed from outside. */
  async 'hold by name'() {
    const locks = await connect(url, { runner: 'worker-1' })
    const lease = await locks.acquire('a', { ttl: '1h', onConflict: 'reclaim', wait: '30s' })
    console.log(`granted ${lease.fence} to ${locks.runner.id}`)
    setInterval(() => {}, 1000)
  },

  /** Loses its store while holding: nothing may throw out of a timer. */
  async 'lose the store'() {
    const locks = await connect(url)
    const lease = await locks.acquire('a', { ttl: 3000 })
    const lost = aborted(lease.signal)
    const { rmSync, writeFileSync } = await import('node:fs')
    const file = url.slice('sqlite:'.length)
    for (const part of ['', '-wal', '-shm']) rmSync(file + part, { force: true })
    writeFileSync(file, 'this is no database, and long enough for SQLite to say so'.repeat(100))
    // Keeps the process alive until the loss is seen.
    const keepAlive = setInterval(() => {}, 50)
    await lost
    clearInterval(keepAlive)
    console.log(`lost: ${lease.loss?.code}`)
    console.log(JSON.stringify(await lease.release()))
    await locks.close()
  },
}

/** Opens a store, lets another process come and go, takes a lock, and says what another process gets of it. */
async function holdAmongOthers(open: () => Promise<Locks>): Promise<void> {
  const locks = await open()
  const foreignFiles = (): string =>
    execFileSync(process.execPath, [fileURLToPath(import.meta.url), 'try', url])
      .toString()
      .trim()
  console.log(`before: ${foreignFiles()}`)
  await locks.acquire('a')
  console.log(`while held: ${foreignFiles()}`)
  process.exit()
}

const play = stories[story]
if (play === undefined) throw new Error(`There is no story ${JSON.stringify(story)}.`)
await play()
