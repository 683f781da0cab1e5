import { defineConfig } from 'vitest/config'

/** Servers under wine, or many processes at once: afterwards, one file at a time. */
const needMachine = ['mongodb*', 'history-*', '*-processes'].map((name) => `test/integration/${name}.test.ts`)

export default defineConfig({
  test: {
    // Real processes: a test file cannot leak timers, handles or environment into the next one.
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
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: ['test/unit/**/*.test.ts'], maxWorkers: 2 },
      },
      {
        extends: true,
        // Processes and stores of their own, and much waiting for them: two files at a time take half as long as one.
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: needMachine,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'integration-alone',
          include: needMachine,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        // Longer proofs, by `npm run test:slow` only.
        test: { name: 'slow', include: ['test/slow/**/*.test.ts'], fileParallelism: false },
      },
    ],
  },
})
