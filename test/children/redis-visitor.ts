/**
 * Takes a lock of each store that is named and says so.
 *
 *   node redis-visitor.js LIBRARY URL…     LIBRARY: the only client library that can be found
 */
import { register } from 'node:module'
import { connect } from '../../src/index.ts'

const [library, ...urls] = process.argv.slice(2)
const missing = library === 'ioredis' ? 'redis' : 'ioredis'
register(
  `data:text/javascript,${encodeURIComponent(`
    export async function resolve(name, context, next) {
      if (name !== ${JSON.stringify(missing)}) return next(name, context)
      throw Object.assign(new Error(name + ' is not installed'), { code: 'ERR_MODULE_NOT_FOUND' })
    }`)}`,
)

for (const url of urls) {
  try {
    await using locks = await connect(url)
    await using lease = await locks.acquire('orders/42', { ttl: 5000, wait: 10_000 })
    console.log(`held ${lease.fence > 0}`)
  } catch (error) {
    console.log(error instanceof Error ? error.message : error)
  }
}
