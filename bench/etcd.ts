/** etcd beside the lock of the etcd3 package, which has a lease and a key for each: a hundred locks at once, and one at a time. */
import { Etcd3 } from 'etcd3'
import { createLocks } from '../src/index.ts'
import { etcd } from '../src/drivers/etcd/driver.ts'
import { EtcdServer } from '../test/support/etcd-server.ts'
import { interleave, median, report } from './report.ts'
import { pairsPerSecond } from './support/hundred-locks.ts'

const rounds = 9
/** Pairs of a round, one after another. */
const pairsARound = 100

const server = await EtcdServer.start()
const client = new Etcd3({ hosts: `http://127.0.0.1:${server.port}` })
const locks = await createLocks({ driver: etcd(server.url) })

async function leaseholdPair(key: string): Promise<void> {
  const lease = await locks.acquire(key)
  await lease.release()
}

async function packagePair(key: string): Promise<void> {
  const lock = client.lock(key)
  await lock.acquire()
  await lock.release()
}

/** The median time of a pair, one after another. */
async function pairMs(pair: (key: string) => Promise<void>): Promise<number> {
  const durations: number[] = []
  for (let turn = 0; turn < pairsARound; turn += 1) {
    const startedAt = performance.now()
    await pair('alone')
    durations.push(performance.now() - startedAt)
  }
  return median(durations)
}

const atOnce = {
  leasehold: () => pairsPerSecond(leaseholdPair),
  etcd3: () => pairsPerSecond(packagePair),
}
const oneAtATime = {
  leasehold: () => pairMs(leaseholdPair),
  etcd3: () => pairMs(packagePair),
}
await interleave(2, atOnce)
const together = await interleave(rounds, atOnce)
await interleave(2, oneAtATime)
const alone = await interleave(rounds, oneAtATime)
await locks.close()
client.close()
await server.stop()

const tenths = (figure: number): number => Math.round(figure * 10) / 10
const hundredths = (figure: number): number => Math.round(figure * 100) / 100
const peer = { name: '`lock()` of etcd3', kind: 'library' } as const
report({
  name: 'etcd',
  figures: {
    pairsPerSecond: Math.round(together.medians.leasehold),
    etcd3PairsPerSecond: Math.round(together.medians.etcd3),
    pairP50Ms: hundredths(alone.medians.leasehold),
    etcd3PairP50Ms: hundredths(alone.medians.etcd3),
  },
  bars: {
    timesEtcd3AtOnce: {
      title: 'etcd, 100 locks at once: pairs a second',
      peer: { ...peer, ours: together.medians.leasehold, theirs: together.medians.etcd3, unit: 'pairs/s' },
      actual: tenths(together.ratio('leasehold', 'etcd3')),
      atLeast: 8,
    },
    timesEtcd3OneAtATime: {
      title: 'etcd, one lock at a time: speed of a pair',
      peer: { ...peer, ours: alone.medians.leasehold, theirs: alone.medians.etcd3, unit: 'ms' },
      actual: hundredths(alone.ratio('etcd3', 'leasehold')),
      atLeast: 1.5,
    },
  },
})
