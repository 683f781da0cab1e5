import { expect, test, vi } from 'vitest'
import { builtin, installCommand, runtime } from '../../src/core/machine/runtime.ts'
import { randomIds } from '../../src/core/machine/random-id.ts'

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

test('what stands in for the process of Node, and throws, has no modules', () => {
  const lookUp = vi.spyOn(process, 'getBuiltinModule').mockImplementation(() => {
    throw new Error('not implemented')
  })
  try {
    expect(builtin('node:http')).toBeUndefined()
  } finally {
    lookUp.mockRestore()
  }
})

test.each([undefined, {}])('where crypto is %j, ids are refused with a code', (chance) => {
  vi.stubGlobal('crypto', chance)
  try {
    expect(() => randomIds(1)()).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }))
  } finally {
    vi.unstubAllGlobals()
  }
})
