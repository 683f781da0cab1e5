import { afterAll } from 'vitest'
import { clientConformance } from '../../src/testing/index.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import { etcdBench } from '../support/etcd-store.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

clientConformance('etcd', { apart: true, open: async () => etcdBench(server.url) })
