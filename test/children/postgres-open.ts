/** One of many that open the same schema at the same moment. Arguments: the URL, when to begin. Prints a fence. */
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/index.ts'

const [url = '', at = '0'] = process.argv.slice(2)
await pause(Math.max(0, Number(at) - Date.now()))
const locks = await connect(url)
const lease = await locks.acquire('opened', { ttl: '10s' })
console.log(`fence ${lease.fence}`)
await lease.release()
await locks.close()
