/** Whether the heap stays flat: ten million locks taken and let go on memory, a million on SQLite and Redis. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { RedisServer } from '../test/support/redis-server.ts'
import { readable, report } from './report.ts'

const child = fileURLToPath(new URL('children/heap-growth.js', import.meta.url))
const directory = await mkdtemp(path.join(tmpdir(), 'heap-growth-'))
const server = await RedisServer.start()

/** The heap in bytes, at the start and after each tenth of the pairs. */
async function heapOver(store: string, where: string, pairs: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', child, store, where, String(pairs)])
  return JSON.parse(stdout) as number[]
}

/** By how many bytes the heap grows with each pair: the slope of the line that fits best. */
function slope(heap: readonly number[], pairs: number): number {
  const middle = (heap.length - 1) / 2
  let covariance = 0
  let variance = 0
  for (const [sample, bytes] of heap.entries()) {
    covariance += (sample - middle) * bytes
    variance += (sample - middle) ** 2
  }
  return ((covariance / variance) * (heap.length - 1)) / pairs
}

const scale = Number(process.argv[2] ?? 1)
const [memoryPairs, storePairs] = [scale * 10_000_000, scale * 1_000_000]
const memory = await heapOver('memory', '', memoryPairs)
const sqlite = await heapOver('sqlite', path.join(directory, 'locks.sqlite'), storePairs)
const redis = await heapOver('redis', String(server.port), storePairs)
await server.stop()
await rm(directory, { recursive: true })

const megabytes = (heap: readonly number[]): string => heap.map((bytes) => (bytes / 1e6).toFixed(2)).join(' ')
const unit = 'bytes a pair'
report({
  name: 'heap-growth',
  figures: {
    memoryPairs,
    storePairs,
    memoryMegabytes: megabytes(memory),
    sqliteMegabytes: megabytes(sqlite),
    redisMegabytes: megabytes(redis),
  },
  bars: {
    memoryBytesPerPair: {
      title: `memory: growth of the heap over ${readable(memoryPairs)} pairs`,
      unit,
      actual: slope(memory, memoryPairs),
      atMost: 0.1,
    },
    sqliteBytesPerPair: {
      title: `SQLite: growth of the heap over ${readable(storePairs)} pairs`,
      unit,
      actual: slope(sqlite, storePairs),
      atMost: 1,
    },
    redisBytesPerPair: {
      title: `Redis: growth of the heap over ${readable(storePairs)} pairs`,
      unit,
      actual: slope(redis, storePairs),
      atMost: 1,
    },
  },
})
