import { onTestFinished } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { serve, type LeaseholdServer, type ServeOptions } from '../../src/server/index.ts'

/** A server for one test, by default in front of a memory store of its own. */
export async function startServer(options: Partial<ServeOptions> = {}): Promise<LeaseholdServer> {
  const server = await serve({ driver: memory(), port: 0, ...options })
  onTestFinished(() => server.close())
  return server
}
