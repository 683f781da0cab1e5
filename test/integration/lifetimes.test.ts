/** Nothing survives `close()`: no descriptor, socket, timer, thread, child, listener or file, whatever happened before. */
import { readdirSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { serve } from '../../src/server/index.ts'
import { lifetimeTest } from '../lifetime/suite.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import { GithubServer } from '../support/github/github-server.ts'
import { NatsServer } from '../support/nats-server.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { folderForFile } from '../support/test-folder.ts'

const folder = folderForFile('lifetimes')
const [redis, postgres, etcd, nats, github, server] = await Promise.all([
  RedisServer.start(),
  PostgresServer.start(),
  EtcdServer.start(),
  NatsServer.start(),
  GithubServer.start({ lagMs: 10 }),
  serve({ driver: memory(), port: 0 }),
])
github.github.user('someone', 'write', 'secret')
afterAll(async () => {
  await Promise.all([redis.stop(), postgres.stop(), etcd.stop(), nats.stop(), github.stop(), server.close()])
})

/** There the binding closes its descriptors late: `sqlite-binding` shows how many there can be. */
const whereNodeHasNoSqlite: readonly 'collected'[] = isBuiltin('node:sqlite') ? [] : ['collected']
const nodes = ['a', 'b', 'c'].map((name) => `sqlite:${path.join(folder, name)}`)

describe('nothing survives close', () => {
  lifetimeTest({ title: 'memory', kinds: [], url: async () => 'memory:' })
  lifetimeTest({
    title: 'sqlite',
    kinds: ['threaded', ...whereNodeHasNoSqlite],
    url: async () => `sqlite:${path.join(folder, 'locks.sqlite')}`,
  })
  lifetimeTest({ title: 'redis', kinds: ['threaded', 'severed'], url: async () => redis.url })
  lifetimeTest({ title: 'postgres', kinds: ['threaded', 'severed'], url: async () => postgres.url })
  lifetimeTest({
    title: 'postgres-advisory',
    kinds: ['severed'],
    url: async () => `${postgres.url.replace(/^\w+:/, 'postgres-advisory:')}?ttl=60s`,
  })
  lifetimeTest({
    title: 'etcd',
    kinds: ['threaded', 'severed'],
    // Debian's etcd has a fault that is warned of.
    environment: { NODE_NO_WARNINGS: '1' },
    url: async () => etcd.url,
  })
  lifetimeTest({
    title: 'nats',
    kinds: ['threaded', 'severed'],
    // It warns of servers that answer before a write is on disk.
    environment: { NODE_NO_WARNINGS: '1' },
    url: async () => nats.url,
  })
  lifetimeTest({ title: 'http', kinds: ['threaded', 'severed'], url: async () => server.url })
  lifetimeTest({
    title: 'quorum',
    kinds: ['threaded', ...whereNodeHasNoSqlite],
    url: async () => `quorum:${nodes.join(',')},?votesAfter=0s`,
  })
  lifetimeTest({
    title: 'github',
    kinds: [],
    // GitHub allows a write a second; its clients' timers are counted by the tests that have a clock of their own.
    only: ['opens and closes'],
    // Node's own fetch keeps connections for a while.
    keepsSockets: true,
    environment: { GITHUB_TOKEN: 'secret' },
    url: async () => `github:${github.github.repository}?api=${github.url}/api/v3&settle=500ms`,
  })

  test('and of files only the lock files themselves stay, and an empty folder for wake-ups', () => {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    expect(files.filter((name) => !/^(locks\.sqlite|[abc])(\.inboxes)?$/.test(name))).toEqual([])
  })
})
