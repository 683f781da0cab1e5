import { newRunnerId } from './client/runner.ts'
import type { HeldName } from '../core/machine/runner-name.ts'
import { systemEnvironment } from '../core/time/environment.ts'
import { LeaseholdError } from '../core/errors.ts'
import { checkOptions } from '../core/contract/option-names.ts'
import { connectNames, type ConnectOptions, openLocks } from './create-locks.ts'
import type { StartThread } from './client/client.ts'
import type { Locks } from './locks.ts'
import { defaultsHints } from './options.ts'

/**
 * Connects to the store a URL names, `memory:`, `memory:NAME`, `sqlite:FILE` …, and opens its locks.
 *
 * @example
 * ```ts
 * import { connect } from 'leasehold'
 *
 * await using locks = await connect('redis://127.0.0.1:6379', { namespace: 'shop' })
 * await locks.run('orders/42', { wait: '5s' }, (lease) => console.log(lease.fence))
 * ```
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Locks> {
  checkOptions(options, connectNames, 'connect', defaultsHints)
  const { runner, heartbeatThread = false, ...rest } = options
  // Loaded only now, as it needs Node: `createLocks`, of the same entry point, runs everywhere.
  const { driverFor, livesInThread } = await import('./stores/connect-driver.ts')
  if (heartbeatThread && livesInThread(url)) {
    throw new LeaseholdError('INVALID', 'A memory store lives in one thread: heartbeatThread cannot renew there.')
  }
  const driver = await driverFor(url)
  const name = runner === undefined ? undefined : await holdName(runner)
  try {
    return await openLocks({
      ...rest,
      driver,
      runnerName: name,
      startThread: heartbeatThread ? (report) => startThread(url, report) : undefined,
    })
  } catch (error) {
    // The driver may be open, and nobody else can close it.
    await driver.close().catch(() => {})
    name?.release()
    throw error
  }
}

async function startThread(url: string, ...[report]: Parameters<StartThread>): ReturnType<StartThread> {
  const { startHeartbeatThread } = await import('./heartbeat/heartbeat-thread.ts')
  return startHeartbeatThread(url, report)
}

async function holdName(name: string): Promise<HeldName> {
  const { takeRunnerName } = await import('../core/machine/runner-name.ts')
  const { processWatch } = await import('../core/machine/liveness.ts')
  const { stateDirectory } = await import('../core/machine/directories.ts')
  const environment = systemEnvironment()
  return takeRunnerName(`${stateDirectory()}/runners`, name, processWatch(), () =>
    newRunnerId(environment, process.pid),
  )
}
