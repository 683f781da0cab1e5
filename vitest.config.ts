import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { TestOrder } from './test/support/test-order.ts'

const integration = (names: readonly string[]): string[] => names.map((name) => `test/integration/${name}.test.ts`)

/** Many processes at once: after the rest, and fewer files at a time. */
const needMachine = integration(['history-*', '*-processes'])

/** Other versions and runtimes, further stores, and most of what needs a MongoDB of its own, under wine here: by `npm run test:all` only. */
const long = [
  'test/slow/**/*.test.ts',
  ...integration([
    'mongodb-lifetimes',
    'mongodb-set',
    'mongodb-store',
    'nats-cluster',
    'primitives-etcd',
    'primitives-github',
    'primitives-nats',
    'mysql-composition',
    'mysql-galera',
    'mysql-lifetimes',
    'primitives-etcd',
    'primitives-github',
    'primitives-mysql',
    'primitives-quorum',
    'redis-client-versions',
    'runtimes',
    's3-client',
    's3-composition',
    's3-lifetimes',
    's3-rights',
    's3-takeover',
    'sqlite-node-versions',
  ]),
]

/** Most tests wait for processes, servers and leases: three files at a time for each processor, within reason. */
const maxWorkers = Math.min(3 * availableParallelism(), 12)

export default defineConfig({
  test: {
    // Real processes: a test file cannot leak timers, handles or environment into the next one, but for unit tests, which share some.
    pool: 'forks',
    globalSetup: ['test/support/state-directory.ts'],
    // Only a test that hangs gets there: a machine that others use too may take many times as long as yours.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Tests that may run side by side mostly wait.
    maxConcurrency: 12,
    expect: { poll: { timeout: 20_000, interval: 20 } },
    // A handle left open ends the run with a complaint, it does not hang it.
    teardownTimeout: 30_000,
    dangerouslyIgnoreUnhandledErrors: false,
    allowOnly: false,
    sequence: { sequencer: TestOrder },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          maxWorkers,
          // Two hundred small files: to load the source anew for each took more processor time than most of them.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'integration',
          include: integration(['**/*']),
          exclude: [...needMachine, ...long],
          maxWorkers,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'integration-alone',
          include: needMachine,
          maxWorkers: Math.ceil((2 * maxWorkers) / 3),
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: { name: 'long', include: long, fileParallelism: false, sequence: { groupOrder: 2 } },
      },
    ],
  },
})
