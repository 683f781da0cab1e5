/** The client inside workerd, the runtime of Cloudflare Workers, against a real server in front of a real store. */
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { expectStory } from '../edge/expected.ts'
import type { Story } from '../edge/scenario.ts'
import { bundle, type Bundle } from '../support/bundle.ts'
import { startServer } from '../support/started-server.ts'
import { Workerd } from '../support/workerd.ts'
import { scratch } from '../sqlite/scratch.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'

const token = 'the-token-of-a-worker-0123456789'
const { file } = scratch()

let worker: Bundle
beforeAll(async () => {
  worker = await bundle(`export { default } from './test/edge/worker.ts'`)
})

async function storyIn(flags: readonly string[]): Promise<Story> {
  const server = await startServer({
    driver: sqlite({ file: file(), forOthers: true }),
    tokens: [{ name: 'worker', token, namespaces: '*', rights: ['lock', 'read', 'evict'] }],
  })
  const workerd = await Workerd.start(worker.code, flags)
  onTestFinished(() => workerd.stop())
  const reply = await fetch(workerd.url, { method: 'POST', body: JSON.stringify({ url: server.url, token }) })
  const text = await reply.text()
  expect(reply.status, `${text}\n${workerd.complaints}`).toBe(200)
  expect(workerd.complaints).toBe('')
  return JSON.parse(text) as Story
}

test('the worker is one file that imports nothing', () => {
  expect(worker.imports).toEqual([])
  expect(worker.code).not.toMatch(/from\s*["']node:|import\s*\(/)
})

test('a worker takes, waits for, hands over, renews, loses and releases locks without anything of Node', async () => {
  const story = await storyIn([])
  expect(story.hasNode).toBe(false)
  expectStory(story)
})

test('a worker with nodejs_compat does the same, over fetch as well', async () => {
  const { runner, ...story } = await storyIn(['nodejs_compat'])
  expect(story.hasNode).toBe(true)
  expect(runner.host).not.toBe('')
  expectStory({ ...story, runner: { host: 'unknown', pid: 0 } })
})
