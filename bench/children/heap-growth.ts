/**
 * Started by `heap-growth` with `--expose-gc`, with the store, its place and a number of pairs: takes and lets go of locks under ever
 * new names, and prints the heap after each tenth of the pairs, as JSON.
 */
import { createLocks } from '../../src/index.ts'
import { openStore } from '../support/bench-stores.ts'
import { heapBytes } from '../support/heap.ts'

const atOnce = 1000
const samples = 10

const [store = '', where = '', pairs = ''] = process.argv.slice(2)
const locks = await createLocks({ driver: openStore(store, where) })
let names = 0

async function takeAndLetGo(count: number): Promise<void> {
  for (let done = 0; done < count; done += atOnce) {
    const wave = Array.from({ length: atOnce }, async () => {
      names += 1
      const lease = await locks.acquire(`orders/${names}`)
      await lease.release()
    })
    await Promise.all(wave)
  }
}

// Warms up: code is compiled, and tables have grown.
await takeAndLetGo(100_000)
const heap = [await heapBytes()]
for (let sample = 0; sample < samples; sample += 1) {
  await takeAndLetGo(Number(pairs) / samples)
  heap.push(await heapBytes())
}
console.log(JSON.stringify(heap))
process.exit(0)
