import type { LockDriver } from '../../core/contract/driver.ts'
import { requireLeaseLifetime } from '../../core/contract/supports.ts'
import type { HeldName } from '../../core/machine/runner-name.ts'
import { newRunner } from './runner.ts'
import { checkNamespace } from '../../core/contract/scope.ts'
import { systemEnvironment, type Environment } from '../../core/time/environment.ts'
import { Client, type StartThread } from './client.ts'
import type { Logger } from './logger.ts'

/** What a client is made of, whatever is built on it. */
export interface ClientOptions {
  readonly driver: LockDriver
  readonly environment?: Environment | undefined
  readonly namespace?: string | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  readonly logger?: Logger | undefined
  readonly allowForce?: boolean | undefined
  readonly runnerName?: HeldName | undefined
  readonly startThread?: StartThread | undefined
}

/** Opens the driver, and a client over it. */
export async function openClient(options: ClientOptions): Promise<Client> {
  const { driver, environment = systemEnvironment(), runnerName } = options
  const namespace = checkNamespace(options.namespace ?? 'default')
  const runner = newRunner(environment, runnerName?.id, options.metadata)
  await driver.open()
  // The thread renews over a connection of its own.
  if (options.startThread !== undefined) requireLeaseLifetime(driver, 'heartbeatThread')
  const client = new Client({
    driver,
    environment,
    runner,
    namespace,
    allowForce: options.allowForce ?? false,
    logger: options.logger,
    runnerName,
  })
  for (const warning of driver.warnings ?? []) client.warnOnce(warning)
  return client
}
