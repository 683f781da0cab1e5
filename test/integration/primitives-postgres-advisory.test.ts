import { afterAll } from 'vitest'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

// Sessions end with their drivers, and so do all their locks: one database is as good as many.
primitivesConformance('postgres-advisory', { open: async () => realTimeBench(() => postgresAdvisory(server.url)) })
