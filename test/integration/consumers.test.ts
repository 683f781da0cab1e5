/** The quick rows of scripts/test-consumers.mjs, which has more. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { isLong } from '../support/extent.ts'

/** Guides whose programs need no package but ours and a small one: the others are built by `npm run test:consumers`. */
const guides = [
  'bun-deno',
  'express',
  'queues',
  ...(isLong ? ['coding-agents', 'cron', 'fastify', 'kubernetes', 'serverless'] : []),
]

test.each([
  ['esbuild', 'installs beside clients and tools that do not fit, and runs out of a bundle, ESM or CommonJS'],
  ['require', 'has one of everything in a process that imports and requires it'],
  ...(isLong ? [['jest', 'runs in Jest, finds clients there and says which are missing']] : []),
])('%s: the tarball %s', async (row) => {
  expect(await outcomeOf(row)).toMatch(new RegExp(`^ok {5}${row}`))
})

test('the programs of the guides are built in an empty folder and print what their pages say', async () => {
  const outcome = await outcomeOf(...guides.map((guide) => `guide-${guide},`))
  expect(outcome.match(/^ok .*$/gm)?.length, outcome).toBe(guides.length)
}, 300_000)

async function outcomeOf(...rows: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['scripts/test-consumers.mjs', ...rows]).catch(
    ({ stdout: printed, stderr }: { readonly stdout: string; readonly stderr: string }) => ({
      stdout: printed + stderr,
    }),
  )
  return stdout
}
