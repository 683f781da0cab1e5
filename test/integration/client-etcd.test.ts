import { afterAll } from 'vitest'
import { etcd } from '../../src/drivers/etcd.ts'
import { clientConformance } from '../../src/testing/index.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

let stores = 0

clientConformance('etcd', {
  apart: true,
  async open() {
    const prefix = `store-${(stores += 1)}/`
    return realTimeBench(() => etcd(server.url, { prefix }))
  },
})
