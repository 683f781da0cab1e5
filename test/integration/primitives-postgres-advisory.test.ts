import { afterAll } from 'vitest'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await PostgresServer.start({ settings: { max_connections: 300 } })
afterAll(() => server.destroy())

let databases = 0

// A database each: its locks are those of all its schemas.
primitivesConformance('postgres-advisory', {
  apart: true,
  async open() {
    const database = `store_${(databases += 1)}`
    await server.sql(`create database ${database}`)
    return realTimeBench(() => postgresAdvisory(server.url.replace(/postgres$/, database)))
  },
})
