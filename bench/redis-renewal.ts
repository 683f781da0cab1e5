/** Ten thousand Redis locks held and renewed by one process: its processor time and commands, beside redis-semaphore. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { RedisServer } from '../test/support/redis-server.ts'
import type { RenewalCost, RenewalsOrder } from './children/redis-renewals.ts'
import { interleave, median, report } from './report.ts'

const leases = 10_000
const ttlMs = 10_000
const refreshMs = 3333
const measureMs = 3 * refreshMs
const rounds = 3

interface Renewals extends RenewalCost {
  readonly commandsPerSecond: number
}

const child = fileURLToPath(new URL('children/redis-renewals.js', import.meta.url))
const server = await RedisServer.start()

async function holdAndRenew(library: RenewalsOrder['library']): Promise<Renewals> {
  await server.cli('FLUSHALL')
  const order: RenewalsOrder = { port: server.port, library, leases, ttlMs, refreshMs, measureMs }
  const holder = spawn(process.execPath, [child, JSON.stringify(order)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface(holder.stdout)[Symbol.asyncIterator]()
  await lines.next()
  await server.cli('CONFIG', 'RESETSTAT')
  const { value } = (await lines.next()) as { value: string }
  const statistics = await server.cli('INFO', 'commandstats')
  const calls = Number(/cmdstat_evalsha:calls=(\d+)/.exec(statistics)?.[1] ?? 0)
  return { ...(JSON.parse(value) as RenewalCost), commandsPerSecond: (calls * 1000) / measureMs }
}

const runs: Record<RenewalsOrder['library'], Renewals[]> = { leasehold: [], 'redis-semaphore': [] }
const contender = (library: RenewalsOrder['library']) => async (): Promise<number> => {
  const renewals = await holdAndRenew(library)
  runs[library].push(renewals)
  return renewals.cpuShare
}
const { medians, ratio } = await interleave(rounds, {
  leasehold: contender('leasehold'),
  redisSemaphore: contender('redis-semaphore'),
})
await server.stop()

const commandsPerSecond = (library: RenewalsOrder['library']): number =>
  median(runs[library].map((run) => run.commandsPerSecond))

const title = 'Redis, 10,000 locks renewed every 3.3 s'
const peer = { name: 'redis-semaphore', kind: 'library' } as const
report({
  name: 'redis-renewal',
  figures: {
    leases,
    refreshMs,
    leaseholdProcessorPercent: 100 * medians.leasehold,
    redisSemaphoreProcessorPercent: 100 * medians.redisSemaphore,
    redisSemaphoreCommandsPerSecond: commandsPerSecond('redis-semaphore'),
    redisSemaphoreLost: runs['redis-semaphore'].reduce((sum, { lost }) => sum + lost, 0),
  },
  bars: {
    processorToRedisSemaphore: {
      title: `${title}: processor time of the client`,
      peer: {
        ...peer,
        ours: 100 * medians.leasehold,
        theirs: 100 * medians.redisSemaphore,
        unit: '% of a core',
      },
      actual: ratio('leasehold', 'redisSemaphore'),
      atMost: 0.35,
    },
    commandsPerSecond: {
      title: `${title}: commands a second`,
      actual: commandsPerSecond('leasehold'),
      atMost: 30,
    },
    lost: {
      title: `${title}: leases lost`,
      actual: runs.leasehold.reduce((sum, { lost }) => sum + lost, 0),
      atMost: 0,
    },
  },
  ratios: {
    commandsToRedisSemaphore: {
      title: `${title}: commands a second`,
      peer: {
        ...peer,
        ours: commandsPerSecond('leasehold'),
        theirs: commandsPerSecond('redis-semaphore'),
        unit: 'commands/s',
      },
      actual: commandsPerSecond('leasehold') / commandsPerSecond('redis-semaphore'),
      better: 'less',
    },
  },
})
