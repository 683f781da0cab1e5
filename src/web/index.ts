import type { LockDriver } from '../core/contract/driver.ts'
import { unsupported, type LeaseholdError } from '../core/errors.ts'
import { checkOptions } from '../core/contract/option-names.ts'
import { http } from '../drivers/http/driver.ts'
import { memory } from '../drivers/memory/driver.ts'
import { connectNames, type ConnectOptions, openLocks } from '../api/create-locks.ts'
import type { Locks } from '../api/locks.ts'
import { defaultsHints } from '../api/options.ts'

/**
 * The entry `leasehold` for pages and edge workers: the same exports, but `connect` opens only stores that can be reached from there. So a
 * bundle has no code that needs Node.
 */
export * from '../exports.ts'

/** `connect` in pages and edge workers: to a Leasehold server, or to the memory of this page or worker. */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Locks> {
  checkOptions(options, connectNames, 'connect', defaultsHints)
  const { runner, heartbeatThread, ...rest } = options
  if (runner !== undefined || heartbeatThread === true) {
    throw unsupportedHere('the options runner and heartbeatThread: there are neither files nor threads')
  }
  const driver = driverFor(url)
  try {
    return await openLocks({ ...rest, driver, runnerName: undefined, startThread: undefined })
  } catch (error) {
    await driver.close().catch(() => {})
    throw error
  }
}

function driverFor(url: string): LockDriver {
  const [, scheme = '', rest = ''] = /^([a-z][a-z-]*):(.*)$/s.exec(url) ?? []
  if (scheme === 'http' || scheme === 'https') return http(url)
  if (scheme === 'memory') return memory(rest === '' ? {} : { name: rest })
  throw unsupportedHere('stores of other schemes than http:, https: and memory:')
}

function unsupportedHere(feature: string): LeaseholdError {
  const advice = 'Put a Leasehold server in front of your store (leasehold serve), and connect to that.'
  return unsupported(feature, 'A page or an edge worker', advice)
}
