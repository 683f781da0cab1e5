import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    // Real processes: a test file cannot leak timers, handles or environment into the next one.
    pool: 'forks',
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // A handle left open ends the run with a complaint, it does not hang it.
    teardownTimeout: 5_000,
    dangerouslyIgnoreUnhandledErrors: false,
    allowOnly: false,
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: ['test/unit/**/*.test.ts'], maxWorkers: 2 },
      },
      {
        extends: true,
        // These start processes and stores of their own: one file at a time leaves them the second core.
        test: { name: 'integration', include: ['test/integration/**/*.test.ts'], fileParallelism: false },
      },
      {
        extends: true,
        // Longer proofs, by `npm run test:slow` only.
        test: { name: 'slow', include: ['test/slow/**/*.test.ts'], fileParallelism: false },
      },
    ],
  },
})
