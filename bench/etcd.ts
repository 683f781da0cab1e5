/** etcd, a hundred locks at once: beside the lock of the etcd3 package, which has a lease and a key for each. */
import { Etcd3 } from 'etcd3'
import { createLocks } from '../src/index.ts'
import { etcd } from '../src/drivers/etcd/driver.ts'
import { EtcdServer } from '../test/support/etcd-server.ts'
import { interleave, report } from './report.ts'
import { pairsPerSecond } from './support/hundred-locks.ts'

const rounds = 7

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

const contenders = {
  leasehold: () => pairsPerSecond(leaseholdPair),
  etcd3: () => pairsPerSecond(packagePair),
}
await interleave(2, contenders)
const { medians, ratio } = await interleave(rounds, contenders)
await locks.close()
client.close()
await server.stop()

report({
  name: 'etcd',
  figures: {
    pairsPerSecond: Math.round(medians.leasehold),
    etcd3PairsPerSecond: Math.round(medians.etcd3),
    timesEtcd3: Math.round(ratio('leasehold', 'etcd3') * 10) / 10,
  },
  bars: {},
})
