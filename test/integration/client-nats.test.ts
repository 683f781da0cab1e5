import { afterAll } from 'vitest'
import { clientConformance } from '../../src/testing/index.ts'
import { NatsServer } from '../support/nats-server.ts'
import { natsBench } from '../support/nats-store.ts'

const server = await NatsServer.start()
afterAll(() => server.stop())

clientConformance('nats', { apart: true, open: async () => natsBench(server.url) })
