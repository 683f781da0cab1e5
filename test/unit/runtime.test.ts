import { expect, test } from 'vitest'
import { installCommand, runtime } from '../../src/core/machine/runtime.ts'

test('the runtime is the one whose name is among the globals', () => {
  const { Bun: bun, Deno: deno } = globalThis as { Bun?: unknown; Deno?: unknown }
  expect(runtime).toBe(bun !== undefined ? 'Bun' : deno !== undefined ? 'Deno' : 'Node')
})

test.each([
  ['Node', 'npm install pg@8 @octokit/core@7', 'npm install --save-dev vitest'],
  ['Bun', 'bun add pg@8 @octokit/core@7', 'bun add --dev vitest'],
  ['Deno', 'deno add npm:pg@8 npm:@octokit/core@7', 'deno add --dev npm:vitest'],
] as const)('a missing package is installed in %s with %s', (on, command, forTests) => {
  expect(installCommand(['pg@8', '@octokit/core@7'], { on })).toBe(command)
  expect(installCommand(['vitest'], { on, dev: true })).toBe(forTests)
})
