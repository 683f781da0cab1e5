import { onTestFinished } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { serve, type LeaseholdServer, type ServeOptions } from '../../src/server/index.ts'

/** A server for one test, in front of a store of its own unless one is given. */
export async function startServer(options: Partial<ServeOptions> = {}): Promise<LeaseholdServer> {
  const server = await serve({ driver: memory(), port: 0, ...options })
  onTestFinished(() => server.close())
  return server
}
