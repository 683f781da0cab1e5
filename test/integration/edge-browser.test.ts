/** The client inside a page of Chromium, against a real server in front of a real store. */
import { createServer } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { expectStory } from '../edge/expected.ts'
import type { Stage, Story } from '../edge/scenario.ts'
import { bundle, type Bundle } from '../support/bundle.ts'
import { Chromium, type WatchedPage } from '../support/chromium.ts'
import { startServer } from '../support/started-server.ts'
import { scratch } from '../sqlite/scratch.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import type { LeaseholdServer, ServeOptions } from '../../src/server/index.ts'
import { listen, closeServer } from '../support/loopback.ts'

const token = 'the-token-of-a-page-0123456789'
const { file } = scratch()

let browser: Chromium
let script: Bundle
beforeAll(async () => {
  script = await bundle(`import { play } from './test/edge/scenario.ts'; globalThis.play = play`)
  browser = await Chromium.start()
}, 600_000)
afterAll(() => browser?.stop())
afterEach(() => browser.closePages())

const page =
  '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module" src="page.js"></script>'
const files = [
  { path: '/page', type: 'text/html', text: () => page },
  { path: '/page.js', type: 'text/javascript', text: () => script.code },
]

function start(options: Partial<ServeOptions> = {}): Promise<LeaseholdServer> {
  return startServer({
    driver: sqlite({ file: file(), forOthers: true }),
    tokens: [{ name: 'page', token, namespaces: '*', rights: ['lock', 'read', 'evict'] }],
    ...options,
  })
}

/** The page on an origin of its own. */
async function servePage(): Promise<string> {
  const server = createServer((request, response) => {
    const found = files.find(({ path }) => path === request.url)
    if (found === undefined) return void response.writeHead(404).end()
    response.writeHead(200, { 'content-type': found.type }).end(found.text())
  })
  const port = await listen(server)
  onTestFinished(() => closeServer(server))
  return `http://127.0.0.1:${port}`
}

async function storyIn({ page: opened }: WatchedPage, stage: Stage): Promise<Story> {
  await opened.waitForFunction('globalThis.play !== undefined')
  return opened.evaluate<Story>(`play(${JSON.stringify(stage)})`)
}

describe('a page', () => {
  test('takes, waits for, hands over, renews, loses and releases locks of the server that it came from', async () => {
    const routes = files.map(({ path, type, text }) => ({
      method: 'GET' as const,
      path,
      right: 'anybody' as const,
      summary: 'A file of a test.',
      documented: false,
      handle: () => ({ status: 200, headers: { 'content-type': type }, body: text() }),
    }))
    const server = await start({ routes })
    const opened = await browser.open(`${server.url}/page`)
    const story = await storyIn(opened, { url: server.url, token })
    expect(story.hasNode).toBe(false)
    expectStory(story)
    // The scenario shows a token that nobody knows, which a browser tells its console.
    expect(opened.complaints.filter((complaint) => !complaint.includes('401'))).toEqual([])
  })

  test('of another origin does the same, if the server allows that origin', async () => {
    const origin = await servePage()
    const server = await start({ corsOrigins: ['https://app.example', origin] })
    expectStory(await storyIn(await browser.open(`${origin}/page`), { url: server.url, token }))
  })

  test('of another origin is kept out by its browser otherwise, and is told that the server cannot be reached', async () => {
    const origin = await servePage()
    const server = await start({ corsOrigins: ['https://app.example'] })
    const story = storyIn(await browser.open(`${origin}/page`), { url: server.url, token })
    await expect(story).rejects.toThrow(/UNAVAILABLE.*cannot be reached/)
  })
})
