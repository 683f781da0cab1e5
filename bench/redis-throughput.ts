/** A thousand distinct keys at once on Redis: acquire and release, beside redis-semaphore, redlock and a raw socket. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { RedisServer } from '../test/support/redis-server.ts'
import type { WavesContender } from './children/redis-waves.ts'
import { interleave, report, type Contender } from './report.ts'
import { nextMessage, startChild } from './support/child.ts'

const keysAtOnce = 1000
const rounds = 15
/** Not counted: code is still being compiled. */
const roundsToWarmUp = 5

const contenders: readonly WavesContender[] = ['leasehold', 'redisSemaphore', 'redlock', 'rawSocket']

const server = await RedisServer.start()
const children = new Map<WavesContender, ChildProcess>()
try {
  for (const contender of contenders) {
    const child = startChild('redis-waves', contender, String(server.port), String(keysAtOnce))
    children.set(contender, child)
    await nextMessage(child)
  }
  const roundOf = (contender: WavesContender): Contender => {
    const child = children.get(contender) as ChildProcess
    return async () => {
      child.send('round')
      return Number(await nextMessage(child))
    }
  }
  const all = Object.fromEntries(contenders.map((name) => [name, roundOf(name)])) as Record<WavesContender, Contender>
  await interleave(roundsToWarmUp, all)
  const { medians, ratio } = await interleave(rounds, all)

  const [title, unit, ours] = ['Redis, 1,000 locks at once: pairs a second', 'pairs/s', medians.leasehold] as const
  report({
    name: 'redis-throughput',
    figures: {
      keysAtOnce,
      leaseholdPairsPerSecond: medians.leasehold,
      redisSemaphorePairsPerSecond: medians.redisSemaphore,
      redlockPairsPerSecond: medians.redlock,
      rawSocketPairsPerSecond: medians.rawSocket,
    },
    bars: {
      speedToRedisSemaphore: {
        title,
        peer: { name: 'redis-semaphore', kind: 'library', ours, theirs: medians.redisSemaphore, unit },
        actual: ratio('leasehold', 'redisSemaphore'),
        atLeast: 4,
      },
      speedToRawSocket: {
        title,
        peer: {
          name: '`SET NX` and `EVALSHA` on a bare socket',
          kind: 'hand-written',
          ours,
          theirs: medians.rawSocket,
          unit,
        },
        actual: ratio('leasehold', 'rawSocket'),
        atLeast: 0.6,
      },
    },
    ratios: {
      speedToRedlock: {
        title,
        peer: { name: 'redlock', kind: 'library', ours, theirs: medians.redlock, unit },
        actual: ratio('leasehold', 'redlock'),
        better: 'more',
      },
    },
  })
} finally {
  const ends = [...children.values()].filter(({ exitCode }) => exitCode === null).map((child) => once(child, 'exit'))
  for (const child of children.values()) if (child.connected) child.send('end')
  await Promise.all(ends)
  await server.stop()
}
