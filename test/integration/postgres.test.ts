import { afterAll } from 'vitest'
import { conformance, modelTest } from '../../src/testing/index.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

const harness = postgresHarness(() => server)

conformance('postgres', harness)
modelTest('postgres', harness, { timeLimitMs: 60_000 })
