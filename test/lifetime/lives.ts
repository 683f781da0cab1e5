/**
 * Lives of a client, each from `connect` to `close`, by the way it goes: everything that the API has, and everything that
 * can go wrong. A life may fail as the store likes; what counts is what it leaves behind.
 */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { connect, type AcquireOptions, type ConnectOptions, type Locks } from '../../src/index.ts'
import { webLocks } from '../../src/web-locks/index.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { aborted } from '../support/aborted.ts'

/** One life, on the store that the URL leads to. */
export type Life = (url: string) => Promise<void>

/** Only a fault reaches the end of ttl or wait. */
const brief: AcquireOptions = { ttl: '60s', wait: '60s' }

let lockCount = 0

/** A name that no life has used: what a life that was cut off still holds keeps no other waiting. */
function freshName(): string {
  lockCount += 1
  return `${process.pid}-${lockCount}`
}

export const lives: Readonly<Record<string, Life>> = {
  'opens and closes': (url) => withLocks(url, async () => {}),
  'is closed twice at once': async (url) => {
    const locks = await connect(url)
    await Promise.all([locks.close(), locks.close()])
  },
  'acquires, renews and releases': (url) =>
    withLocks(url, async (locks, name) => {
      const lease = await locks.acquire(name, brief)
      // Creates the signal, which is made on first use.
      lease.signal.throwIfAborted()
      await lease.renew()
      await lease.release()
    }),
  'leaves its leases to close': (url) =>
    withLocks(url, async (locks, name) => {
      await Promise.all([name, `${name}-b`, `${name}-c`].map((each) => locks.acquire(each, brief)))
    }),
  'is closed while it waits': (url) =>
    withLocks(url, async (holder, name) => {
      await holder.acquire(name, brief)
      const waiting = await connect(url)
      const outcome = waiting.acquire(name, { ...brief, wait: '60s' }).catch(ignore)
      await nextTurn()
      await waiting.close()
      await outcome
    }),
  'gives up by its time, by a signal and at once': (url) =>
    withLocks(url, async (locks, name) => {
      await locks.acquire(name, brief)
      const abort = new AbortController()
      const acquiring = locks.acquire(name, { ...brief, signal: abort.signal }).catch(ignore)
      await locks.acquire(name, { ...brief, wait: 30 }).catch(ignore)
      abort.abort()
      await acquiring
      await locks.tryAcquire(name, { ttl: '60s' })
      await locks.acquire(name, { ...brief, onConflict: 'fail' }).catch(ignore)
    }),
  'runs bodies, one of which throws': (url) =>
    withLocks(url, async (locks, name) => {
      await locks.run(name, brief, async () => {})
      await locks
        .run(name, brief, () => {
          throw new Error('by design')
        })
        .catch(ignore)
    }),
  'takes several locks': (url) =>
    withLocks(url, async (locks, name) => {
      const all = await locks.acquireAll([name, `${name}-b`, `${name}-c`], brief)
      await all.release()
    }),
  'reads, writes and shares': (url) =>
    withLocks(url, async (locks, name) => {
      const lock = locks.readWrite(name, brief)
      const reader = await lock.read()
      const writer = await reader.upgrade({ wait: '2s' })
      await (await writer.downgrade()).release()
      await (await locks.semaphore(name, 2, brief).acquire()).release()
    }),
  'stands in elections and observes them': (url) =>
    withLocks(url, async (locks, name) => {
      const election = locks.elect(name, { ttl: '60s', observeEvery: '50ms', onElected: () => {} })
      await election.campaign()
      for await (const leader of election) if (leader !== null) break
      await election.resign()
      const rival = locks.elect(name, { ttl: '60s' })
      await rival.campaign()
      // The client closes while it is the leader.
    }),
  'runs a scheduled job and a task': (url) =>
    withLocks(url, async (locks, name) => {
      await locks.once(name, { atLeast: '5s', atMost: '10s' }, async () => {})
      const claimed = await locks.claim('queue', name, { ttl: '60s' })
      if (claimed.state !== 'claimed') return
      await claimed.heartbeat()
      await claimed.complete()
    }),
  'hands a lease off, and takes it over': (url) =>
    withLocks(url, async (locks, name) => {
      const proof = await (await locks.acquire(name, brief)).handOff()
      await locks.verify(proof, name)
      await (await locks.resume(proof, { ttl: '60s' })).release()
    }),
  'looks at everything': (url) =>
    withLocks(url, async (locks, name) => {
      await locks.acquire(name, brief)
      await locks.list()
      await locks.inspect(name)
      await locks.explain(name)
      await locks.status(name)
      await locks.stats()
      await locks.sweep()
    }),
  'is evicted': (url) =>
    withLocks(url, async (locks, name) => {
      const lease = await locks.acquire(name, brief)
      const lost = aborted(lease.signal)
      await locks.evict(name, { reason: 'by design' })
      await lease.renew().catch(ignore)
      await lost
    }),
  'is listened to by those who throw and reject': (url) =>
    withLocks(url, async (locks, name) => {
      locks.on('acquired', () => {
        throw new Error('by design')
      })
      locks.on('released', async () => {
        throw new Error('by design')
      })
      await (await locks.acquire(name, brief)).release()
    }),
  'is asked for what cannot be': (url) =>
    withLocks(url, async (locks, name) => {
      const cycle: Record<string, unknown> = {}
      cycle['self'] = cycle
      await locks.acquire(name, { ...brief, metadata: cycle }).catch(ignore)
      await locks.acquire(name, { ...brief, metadata: { big: 1n } }).catch(ignore)
      await locks.acquire('', brief).catch(ignore)
      await locks.acquire(name, { ttl: -1 }).catch(ignore)
      await locks.resume(JSON.parse('{}')).catch(ignore)
      await connect(url, JSON.parse('{"unheard-of":1}')).catch(ignore)
      await connect(url, { namespace: '/' }).catch(ignore)
    }),
  'waits for itself': (url) =>
    withLocks(url, async (locks, name) => {
      await locks.run(name, brief, () => locks.acquire(name, brief)).catch(ignore)
    }),
  'speaks Web Locks': (url) =>
    withLocks(url, async (locks, name) => {
      const manager = webLocks(locks)
      await manager.request(name, async () => {
        await manager.query()
        await manager.request(name, { ifAvailable: true }, async () => {})
      })
    }),
}

/** Lives with a second thread. */
export const threadedLives: Readonly<Record<string, Life>> = {
  'renews from a thread': (url) =>
    withLocks(
      url,
      async (locks, name) => {
        const lease = await locks.acquire(name, { ttl: '60s', heartbeat: '50ms' })
        await Promise.race([pause(120), aborted(lease.signal)])
        await lease.release()
      },
      { heartbeatThread: true },
    ),
}

/** Lives over a network that fails. Every URL here leads to one host and port. */
export const severedLives: Readonly<Record<string, Life>> = {
  'never reaches its store': async (url) => {
    const proxy = await TcpProxy.start({ port: portOf(url) })
    proxy.refuse()
    await connect(through(url, proxy)).then((locks) => locks.close(), ignore)
    await proxy.stop()
  },
  'is cut off while it holds and waits': async (url) => {
    const proxy = await TcpProxy.start({ port: portOf(url) })
    const locks = await connect(through(url, proxy))
    const name = freshName()
    await locks.acquire(name, brief)
    const waiting = locks.acquire(name, { ...brief, wait: '300ms' }).catch(ignore)
    await nextTurn()
    proxy.refuse()
    await locks.acquire(freshName(), { ...brief, wait: '100ms' }).catch(ignore)
    await waiting
    await locks.close()
    await proxy.stop()
  },
  'is cut off for a moment': async (url) => {
    const proxy = await TcpProxy.start({ port: portOf(url) })
    const locks = await connect(through(url, proxy))
    const name = freshName()
    await locks.acquire(name, brief)
    proxy.cut()
    const again = await locks.acquire(freshName(), { ...brief, wait: '5s' }).catch(ignore)
    await again?.release()
    await locks.close()
    await proxy.stop()
  },
  'is closed while its store is silent': async (url) => {
    const proxy = await TcpProxy.start({ port: portOf(url) })
    const locks = await connect(through(url, proxy))
    const name = freshName()
    await locks.acquire(name, brief)
    proxy.pause()
    await locks.close()
    await proxy.stop()
  },
}

async function withLocks(
  url: string,
  body: (locks: Locks, name: string) => Promise<void>,
  options: ConnectOptions = {},
): Promise<void> {
  const locks = await connect(url, { allowForce: true, ...options })
  try {
    await body(locks, freshName())
  } catch (error) {
    // What a store cannot do it refuses; that leaves nothing behind either.
    if ((error as { code?: unknown }).code !== 'UNSUPPORTED') throw error
  } finally {
    await locks.close()
  }
}

function ignore(): undefined {
  return undefined
}

function portOf(url: string): number {
  return Number(/:(\d+)/.exec(url.slice(url.indexOf('//')))?.[1])
}

function through(url: string, proxy: TcpProxy): string {
  return url.replace(`:${portOf(url)}`, `:${proxy.port}`)
}
