import { expect, test } from 'vitest'
import { installCommand, runtime } from '../../src/core/machine/runtime.ts'

const { Bun: bun, Deno: deno } = globalThis as { Bun?: unknown; Deno?: unknown }
const here = bun !== undefined ? 'Bun' : deno !== undefined ? 'Deno' : 'Node'

// Read by scripts/test-runtimes.mjs.
test(`this is ${here}, as its global says`, () => expect(runtime).toBe(here))

test.each([
  ['Node', 'npm install pg@8 @octokit/core@7', 'npm install --save-dev vitest'],
  ['Bun', 'bun add pg@8 @octokit/core@7', 'bun add --dev vitest'],
  ['Deno', 'deno add npm:pg@8 npm:@octokit/core@7', 'deno add --dev npm:vitest'],
] as const)('a missing package is installed in %s with %s', (on, command, forTests) => {
  expect(installCommand(['pg@8', '@octokit/core@7'], { on })).toBe(command)
  expect(installCommand(['vitest'], { on, dev: true })).toBe(forTests)
})
