/** A process that holds a lock in etcd until it is ended. Arguments: the store's URL, the lock's name, its ttl in ms. */
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { createLocks } from '../../src/index.ts'

const [url = '', name = '', ttl = ''] = process.argv.slice(2)
const locks = await createLocks({ driver: etcd(url), defaults: { ttl: Number(ttl) } })
const lease = await locks.acquire(name)
setInterval(() => {}, 1000)
lease.signal.addEventListener('abort', () => console.log(`lost ${lease.fence}`))
console.log(`held ${lease.fence}`)
