import { afterAll } from 'vitest'
import { primitivesConformance } from '../../src/testing/index.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import { etcdBench } from '../support/etcd-store.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

primitivesConformance('etcd', { apart: true, open: async () => etcdBench(server.url) })
