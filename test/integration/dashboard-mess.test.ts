import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { dashboard } from '../../src/server/operators.ts'
import { serve } from '../../src/server/index.ts'
import { Child } from '../support/child.ts'
import { Chromium } from '../support/chromium.ts'
import { eventually } from '../support/eventually.ts'
import { isLong } from '../support/extent.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'

// As operators find it on a bad day: test/children/operators-mess.ts on real stores, and the page before it.

let browser: Chromium
beforeAll(async () => {
  browser = await Chromium.start()
}, 600_000)
afterAll(() => browser?.stop())

const stores = [
  [
    'Redis',
    async () => {
      const store = await RedisServer.start()
      return { store, away: async () => store.freeze(), back: async () => store.thaw() }
    },
  ],
  [
    'PostgreSQL',
    async () => {
      const store = await PostgresServer.start()
      return { store, away: () => store.stop(), back: () => store.resume() }
    },
  ],
] as const

describe.each(isLong ? stores : stores.slice(0, 1))('a mess on %s', (_, start) => {
  test('is named in one look: who blocks what, since when, and what to do; also after the store was away', async () => {
    const { store, away, back } = await start()
    onTestFinished(() => store.stop())
    const server = await serve({ store: store.url, port: 0, routes: dashboard() })
    onTestFinished(() => server.close())
    const child = new Child('operators-mess', [store.url, '40'])
    onTestFinished(() => child.kill())
    await child.line(/ready/)
    const { page } = await browser.open(server.url)
    const problem = (text: RegExp) =>
      page.locator('#problems li').filter({ hasText: text }).waitFor({ timeout: 60_000 })
    await problem(
      /Deadlock of 3 owners.*close-\w+, close-\w+, close-\w+ wait for each other's locks .*for \d+ s\..*evict one of them/,
    )
    await problem(
      /stock\/nightly-sync.*Held by alice: stock-importer.*for \d+ s\. 47 claims are queued, the longest for \d+ s.*evict it/,
    )
    await problem(/gpu.*Held by 4 holders.*11 claims are queued/)
    await problem(/export\/1.*cron: invoice-export --all has been silent for \d+ s.*free in \d+ s/)
    await page.getByText(/^\d{3} locks$/).waitFor()
    expect(await page.locator('#lock-rows [role=row][aria-rowindex="2"]').innerText()).toContain('stock/nightly-sync')
    await page.getByRole('tab', { name: /Who waits for whom 1/ }).click()
    await page.locator('.picture .owner.circular').nth(2).waitFor()
    await page.getByText(/47 owners wait for stock\/nightly-sync, held by alice/).waitFor()
    await away()
    await page.getByText('The store does not answer: this data is out of date.').waitFor()
    await back()
    await page.getByText('Live', { exact: true }).waitFor()
    await page.getByRole('tab', { name: 'Locks' }).click()
    await eventually(async () => (await page.locator('#lock-rows [role=row]').count()) > 10, 'the rows')
  }, 240_000)
})
