import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Page } from 'playwright-core'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks, type CreateLocksOptions, type Locks } from '../../src/index.ts'
import { serve, type LeaseholdServer, type ServeOptions } from '../../src/server/index.ts'
import { dashboard } from '../../src/server/operators.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { accessibilityFaults } from '../support/accessibility.ts'
import { claim, claiming, claimOf } from '../support/claims.ts'
import { Chromium } from '../support/chromium.ts'
import { eventually } from '../support/eventually.ts'
import { rounds } from '../support/extent.ts'
import { freePort } from '../support/free-port.ts'

// The page itself, in Debian's Chromium. Where that cannot be had these tests fail and say what to install.

let browser: Chromium
beforeAll(async () => {
  browser = await Chromium.start()
}, 600_000)
afterAll(() => browser?.stop())

afterEach(async () => {
  await browser.closePages()
})

let stores = 0

/** A store with a server in front of it and as many clients as a test wants. */
function stage() {
  const name = `dashboard-${(stores += 1)}`
  const start = async (options: Partial<ServeOptions> = {}): Promise<LeaseholdServer> => {
    const server = await serve({ driver: memory({ name }), port: 0, routes: dashboard(), ...options })
    onTestFinished(() => server.close())
    return server
  }
  const client = async (options: Partial<CreateLocksOptions> = {}): Promise<Locks> => {
    const locks = await createLocks({ driver: memory({ name }), ...options })
    onTestFinished(() => locks.close())
    return locks
  }
  return { start, client }
}

/** The row of a lock, by its name. */
function rowOf(page: Page, name: string) {
  return page.locator('#lock-rows').getByRole('link', { name, exact: true })
}

async function textOf(page: Page, selector: string): Promise<string> {
  return page.locator(selector).innerText()
}

/** What is there once a view is shown. */
const viewShown: Readonly<Record<string, string>> = {
  waits: '.picture svg',
  charts: '#charts svg',
  evictions: '#audit-note:not(:empty)',
  'default%2Fnamed%3Aflour': '.claim',
}

/** Scrolls down for three seconds; gives how long frames took, and how many rows there were at most. */
const scrollThrough = `new Promise((resolve) => {
  const times = []
  let before = performance.now(), rowsMax = 0
  const startedAt = before
  const step = (now) => {
    times.push(now - before)
    before = now
    rowsMax = Math.max(rowsMax, document.querySelectorAll('#lock-rows [role=row]').length)
    scrollBy(0, 300)
    if (now - startedAt < 3000) requestAnimationFrame(step)
    else resolve({ longest: Math.max(...times), median: times.sort((a, b) => a - b)[times.length >> 1], rowsMax, frames: times.length })
  }
  requestAnimationFrame(step)
})`

/** Whatever one can press or fill that has no name for a screen reader. */
const unnamed = `[...document.querySelectorAll('button, input:not([type=hidden]), select')]
  .filter((each) => !each.textContent.trim() && !each.ariaLabel && !each.labels?.length)
  .map((each) => each.outerHTML)`

function inBackground(promise: Promise<unknown>): void {
  promise.catch(() => {})
}

describe('the page', () => {
  test('shows a lock as it is taken, a waiter behind it, and what happens', async () => {
    const { start, client } = stage()
    const { page, complaints } = await browser.open((await start()).url)
    await page.getByText('No locks are held').waitFor()
    const one = await client({ metadata: { user: 'alice', command: 'make', step: '<b>2</b>' } })
    const other = await client({ metadata: { user: 'bob', command: 'deploy' } })
    const lease = await one.acquire('invoice/42')
    await rowOf(page, 'invoice/42').click()
    await page.getByText(String(lease.fence), { exact: true }).waitFor()
    inBackground(other.acquire('invoice/42'))
    await page.getByRole('heading', { name: '1 queued, in order' }).waitFor()
    expect(await textOf(page, '.queue li')).toMatch(/bob: deploy/)
    await page.getByText('Metadata').click()
    await page.getByText('<b>2</b>', { exact: true }).waitFor()
    expect(await textOf(page, '.hint')).toContain('leasehold explain --namespace default invoice/42')
    await lease.release()
    await page.getByRole('heading', { name: 'Nobody is queued' }).waitFor()
    await page.locator('#lock-history li').filter({ hasText: 'granted to bob: deploy' }).waitFor()
    await eventually(async () => (await textOf(page, '#events')).includes('granted to bob: deploy'), 'the principal')
    expect(await textOf(page, '#events')).toMatch(/released by alice: make/)
    await eventually(async () => (await textOf(page, '#total-holders')) === '1', 'one holder')
    // The first look may have come after the first principal.
    const rates = async () => Promise.all(['granted', 'queued', 'lost'].map((each) => textOf(page, `#rates-${each}`)))
    await eventually(async () => /^[12] 1 0$/.test((await rates()).join(' ')), 'the last minute')
    expect(complaints).toEqual([])
  })

  test('shows names and metadata as text, whatever they are', async () => {
    const { start, client } = stage()
    const name = '<img src=x onerror=alert(1)>'
    const service = '<img src=x onerror=alert(0)>'
    const metadata = { command: '<script>alert(2)</script>', service, 'on"click': '"><svg onload=alert(3)>' }
    const [one, other] = [await client({ metadata }), await client({ metadata })]
    await one.acquire(name, { owner: '<svg onload=alert(4)>' })
    inBackground(other.acquire(name, { owner: '<svg onload=alert(5)>' }))
    const { page, complaints } = await browser.open((await start()).url)
    await rowOf(page, name).click()
    await page.getByText('Metadata').click()
    await page.getByText('"><svg onload=alert(3)>').waitFor()
    await page.getByRole('button', { name: '← All locks' }).click()
    await page.getByRole('tab', { name: /Who waits/ }).click()
    await page.getByRole('listitem').filter({ hasText: '<svg onload=alert(5)> waits for' }).waitFor()
    await page.getByRole('tab', { name: 'Charts' }).click()
    await page.getByRole('heading', { name: 'Grants a minute' }).waitFor()
    await page.goto(
      `${page.url().split('#', 1)[0] ?? ''}#lock=${encodeURIComponent('x/named:<img src=x onerror=alert(6)>')}`,
    )
    await page.getByRole('heading', { name: '<img src=x onerror=alert(6)>' }).waitFor()
    expect(await page.locator('img[src=x], main script, svg[onload]').count()).toBe(0)
    expect(complaints).toEqual([])
  })

  test('shows who waits in a cycle', async () => {
    const { start, client } = stage()
    const locks = await client({ deadlockDetection: false })
    const [ab, ba] = [{ owner: 'mill' }, { owner: 'baker' }]
    await locks.acquire('flour', ab)
    await locks.acquire('bread', ba)
    inBackground(locks.acquire('bread', ab))
    inBackground(locks.acquire('flour', ba))
    const { page, complaints } = await browser.open((await start()).url)
    await page.getByRole('tab', { name: /Who waits for whom 1/ }).click()
    await page.getByRole('alert').getByText('Deadlock:').waitFor()
    expect(await textOf(page, '#cycles')).toMatch(/mill waits for bread of baker/)
    await page.locator('svg .owner.circular').first().waitFor()
    expect(await page.locator('svg .owner.circular').count()).toBe(2)
    expect(await page.locator('svg .edge.circular').count()).toBe(2)
    await page.locator('#problems').getByText('Deadlock of 2 owners').waitFor()
    expect(await textOf(page, '#problems')).toMatch(/wait for each other's locks \((bread, flour|flour, bread)\)/)
    expect(complaints).toEqual([])
  })

  test('shows every waiter that a process queued in one millisecond, neighbours of a kind as one group', async () => {
    const time = fakeTime()
    const name = `dashboard-${(stores += 1)}`
    const driver = memory({ name, clock: time.clock })
    await driver.open()
    onTestFinished(() => driver.close())
    for (let waiter = 0; waiter < 6; waiter += 1) await claim(driver, claimOf('default/named:rush'))
    await claim(driver, claimOf('default/named:rush', { mode: 'shared' }))
    const server = await serve({ driver: memory({ name, clock: time.clock }), port: 0, routes: dashboard() })
    onTestFinished(() => server.close())
    const { page, complaints } = await browser.open(server.url)
    await rowOf(page, 'rush').click()
    await page.getByRole('heading', { name: '6 queued, in order' }).waitFor()
    await page.locator('.queue > li').first().getByText('5 queued').click()
    await eventually(async () => (await page.locator('.queue > li').first().locator('li').count()) === 5, 'five claims')
    expect(await page.locator('.queue > li').count()).toBe(2)
    expect(await page.locator('.queue > li').nth(1).getAttribute('value')).toBe('6')
    expect(complaints).toEqual([])
  })

  test('searches and sorts hundreds of locks, and the address says how', async () => {
    const { start, client } = stage()
    const locks = await client({ namespace: 'many', metadata: { service: 'mill' } })
    await Promise.all(Array.from({ length: 250 }, (_, at) => locks.acquire(`job-${1000 + at}`)))
    inBackground(locks.acquire('job-1200', { owner: 'a' }))
    inBackground(locks.acquire('job-1200', { owner: 'b' }))
    await eventually(async () => (await locks.status('job-1200')).waiting === 2, 'two waiters')
    const { page, complaints } = await browser.open((await start()).url)
    const first = page.locator('#lock-rows [role=row][aria-rowindex="2"]')
    await first.getByText('job-1200').waitFor()
    expect(await first.innerText()).toMatch(/mill[^]*2 queued/)
    expect(await page.locator('#lock-rows [role=row]').count()).toBeLessThan(100)
    await page.getByRole('button', { name: 'Lock', exact: true }).click()
    await first.getByText('job-1000').waitFor()
    await page.getByRole('button', { name: 'Lock', exact: true }).click()
    await first.getByText('job-1249').waitFor()
    expect(new URL(page.url()).hash).toBe('#sort=name&order=last')
    await page.getByLabel('Name', { exact: true }).fill('JOB-124')
    await page.getByText('10 matches').waitFor()
    await page.reload()
    await first.getByText('job-1249').waitFor()
    await page.getByText('10 matches').waitFor()
    await page.getByLabel('Service').fill('baker')
    await page.getByText('No matches').waitFor()
    await page.getByLabel('Service').fill('mill')
    await page.getByText('10 matches').waitFor()
    await page.getByLabel('Namespace').fill('other')
    await page.getByText('No matches').waitFor()
    await page.getByLabel('Namespace').fill('many')
    await page.getByLabel('State').selectOption('expired')
    await page.getByText('No matches').waitFor()
    await page.getByRole('tab', { name: 'Charts' }).click()
    await page.getByRole('heading', { name: 'Takeovers a minute' }).waitFor()
    expect(new URL(page.url()).hash).toContain('tab=charts')
    await page.goBack()
    await page.getByText('No matches').waitFor()
    expect(await page.getByLabel('State').inputValue()).toBe('expired')
    expect(complaints).toEqual([])
  })

  test('goes from row to row by keyboard, opens a lock, and comes back to where it was', async () => {
    const { start, client } = stage()
    const locks = await client()
    await Promise.all(Array.from({ length: 300 }, (_, at) => locks.acquire(`job-${1000 + at}`)))
    const { page, complaints } = await browser.open((await start()).url)
    await rowOf(page, 'job-1000').focus()
    for (let row = 0; row < 60; row += 1) await page.keyboard.press('ArrowDown')
    const focused = () => page.evaluate('document.activeElement.textContent')
    await eventually(async () => (await focused()) === 'job-1060', 'the row, once it has been read')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'job-1059' }).waitFor()
    expect(await focused()).toBe('job-1059')
    await page.keyboard.press('Escape')
    await rowOf(page, 'job-1059').waitFor()
    expect(await page.evaluate('scrollY')).toBeGreaterThan(1000)
    await page.keyboard.press('/')
    await page.keyboard.type('1234')
    await page.getByText('1 match', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })

  test('scrolls through ten thousand locks without a frame that takes long', async () => {
    const name = `dashboard-${(stores += 1)}`
    const driver = memory({ name })
    await driver.open()
    onTestFinished(() => driver.close())
    for (let from = 0; from < 10_000; from += 500) {
      const claims = Array.from({ length: 500 }, (_, at) => claimOf(`shop/named:cart/${10_000 + from + at}`))
      await driver.send(claims.map(claiming))
    }
    const server = await serve({ driver: memory({ name }), port: 0, routes: dashboard() })
    onTestFinished(() => server.close())
    const { page, complaints } = await browser.open(server.url)
    await page.getByText('10000 locks').waitFor()
    const frames = (await page.evaluate(scrollThrough)) as { longest: number; median: number; rowsMax: number }
    expect(frames.rowsMax).toBeLessThan(120)
    // A list without virtual rows takes seconds for a frame; a busy machine takes 200 ms for any.
    expect(frames.longest).toBeLessThan(1000)
    expect(frames.median).toBeLessThan(100)
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    await rowOf(page, 'cart/19999').waitFor()
    expect(complaints).toEqual([])
  })

  test('has nothing that axe finds fault with, in any view, light and dark, wide and narrow', async () => {
    const { start, client } = stage()
    const locks = await client({
      metadata: { service: 'shop', user: 'alice', command: 'make' },
      deadlockDetection: false,
    })
    await locks.acquire('flour', { owner: 'mill' })
    await locks.acquire('bread', { owner: 'baker' })
    inBackground(locks.acquire('bread', { owner: 'mill' }))
    inBackground(locks.acquire('flour', { owner: 'baker' }))
    for (let waiter = 0; waiter < 5; waiter += 1) inBackground(locks.acquire('flour'))
    const server = await start()
    const { page, complaints } = await browser.open(server.url)
    await page.locator('#problems').getByText('Deadlock of 2 owners').waitFor()
    const looks = [
      { width: 1280, theme: 'light' },
      { width: 390, theme: 'dark' },
      { width: 1280, theme: 'dark' },
      { width: 390, theme: 'light' },
    ]
    for (const { width, theme } of looks.slice(0, rounds(2, 4))) {
      await page.setViewportSize({ width, height: 900 })
      while ((await page.getByRole('button', { name: /^Theme/ }).innerText()) !== `Theme: ${theme}`) {
        await page.getByRole('button', { name: /^Theme/ }).click()
      }
      for (const view of ['', 'tab=waits', 'tab=charts', 'tab=evictions', 'lock=default%2Fnamed%3Aflour']) {
        await page.goto(`${server.url}/#${view}`)
        await page
          .locator(view === '' ? '#lock-rows a' : (viewShown[view.split('=')[1] ?? ''] ?? ''))
          .first()
          .waitFor()
        expect({ view, theme, width, faults: await accessibilityFaults(page) }).toEqual({
          view,
          theme,
          width,
          faults: [],
        })
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
      }
    }
    await page
      .getByRole('button', { name: /^Evict process|^Evict alice/ })
      .first()
      .click()
    await page.getByRole('dialog').waitFor()
    expect(await accessibilityFaults(page)).toEqual([])
    expect(complaints).toEqual([])
  })

  test('can be used by keyboard alone, on a narrow screen, in the dark', async () => {
    const { start, client } = stage()
    await (await client()).acquire('a-name-that-is-quite-long/and/has/many/parts/which-will-not-fit')
    const { page, complaints } = await browser.open((await start()).url)
    await page.locator('#lock-rows a').first().waitFor()
    await page.getByRole('button', { name: 'Queued' }).focus()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Held by' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('tab', { name: 'Locks' }).focus()
    await page.keyboard.press('End')
    await page.getByText('No evictions since').waitFor()
    await page.keyboard.press('Home')
    await page.locator('#lock-rows a').first().waitFor()
    const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
    const light = await background()
    await page.emulateMedia({ colorScheme: 'dark' })
    await eventually(async () => (await background()) !== light, 'the dark')
    await page.getByRole('button', { name: 'Theme: as the system' }).click()
    expect(await background()).toBe(light)
    await page.reload()
    await page.getByRole('button', { name: 'Theme: light' }).waitFor()
    expect(await background()).toBe(light)
    await page.getByRole('button', { name: 'Theme: light' }).click()
    expect(await background()).not.toBe(light)
    await page.getByRole('button', { name: 'Theme: dark' }).click()
    await page.setViewportSize({ width: 360, height: 700 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(await page.evaluate(unnamed)).toEqual([])
    expect(complaints).toEqual([])
  })

  test('says when the server is gone, and goes on by itself when it is back', async () => {
    const { start, client } = stage()
    const locks = await client()
    const port = await freePort()
    const server = await start({ port })
    const { page } = await browser.open(server.url)
    await page.getByText('Live', { exact: true }).waitFor()
    await server.close()
    await page.getByText('Connection lost').waitFor()
    await locks.acquire('meanwhile')
    await start({ port })
    await page.getByText('Live', { exact: true }).waitFor()
    await rowOf(page, 'meanwhile').waitFor()
  })
})

describe('evicting', () => {
  test('wants a reason and the name, ends the holder, and is in the audit', async () => {
    const { start, client } = stage()
    const lease = await (await client()).acquire('nightly')
    const { page, complaints } = await browser.open((await start()).url)
    await rowOf(page, 'nightly').click()
    await page.getByRole('button', { name: /^Evict process/ }).click()
    const dialog = page.getByRole('dialog', { name: 'Evict this holder?' })
    await dialog.getByText(String(lease.fence)).waitFor()
    const confirm = dialog.getByRole('button', { name: 'Evict' })
    await dialog.getByLabel('Reason').fill('stuck for an hour')
    expect(await confirm.isDisabled()).toBe(true)
    await dialog.getByLabel('Type the lock').fill('nightl')
    expect(await confirm.isDisabled()).toBe(true)
    await dialog.getByLabel('Type the lock').fill('nightly')
    await confirm.click()
    await dialog.getByText(`fence ${lease.fence}: evicted.`).waitFor()
    await eventually(() => lease.signal.aborted, 'the end of the lease')
    expect(String(lease.signal.reason)).toContain('stuck for an hour')
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: '← All locks' }).click()
    await page.getByRole('tab', { name: 'Evictions' }).click()
    await page.getByRole('row', { name: /anybody nightly.*stuck for an hour evicted/ }).waitFor()
    await eventually(async () => (await textOf(page, '#events')).includes('evicted by anybody'), 'the event')
    expect(complaints).toEqual([])
  })
})

describe('a server with tokens', () => {
  const tokens = [
    { name: 'boss', token: 'boss-0123456789abcdef', namespaces: '*', rights: ['read', 'evict'] },
    { name: 'guest', token: 'guest-0123456789abcdef', namespaces: ['default'], rights: ['read'] },
    { name: 'worker', token: 'worker-0123456789abcdef', namespaces: '*', rights: ['lock'] },
  ] as const

  async function signIn(page: Page, token: string): Promise<void> {
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Sign in' }).click()
  }

  test('is asked with a token; a wrong one, and one without the right, are told', async () => {
    const { start, client } = stage()
    await (await client()).acquire('open')
    await (await client({ namespace: 'secret' })).acquire('hidden')
    const { page, complaints } = await browser.open((await start({ tokens })).url)
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    expect(complaints).toEqual([])
    await signIn(page, 'wrong-0123456789abcdef')
    await page.getByText('The server does not know this token.').waitFor()
    await signIn(page, 'worker-0123456789abcdef')
    await page.getByText("This token lacks the right 'read'").waitFor()
    await signIn(page, 'guest-0123456789abcdef')
    await rowOf(page, 'open').click()
    await page.getByRole('heading', { name: 'Held by' }).waitFor()
    expect(await page.getByRole('button', { name: /^Evict/ }).count()).toBe(0)
    expect(await page.getByText('hidden').count()).toBe(0)
    await eventually(async () => (await textOf(page, '#total-locks')) === '1', 'one lock')
    await page.reload()
    await page.getByText('as guest').waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.goto(`${page.url().split('#', 1)[0] ?? ''}#`)
    await signIn(page, 'boss-0123456789abcdef')
    await rowOf(page, 'hidden').click()
    await page.getByRole('button', { name: /^Evict/ }).waitFor()
    // The browser itself notes each call that the wrong token was refused: one, or those beside it.
    expect(complaints.filter((complaint) => !complaint.includes('401'))).toEqual([])
    expect(complaints.length).toBeGreaterThan(0)
    expect(await page.evaluate('localStorage.length + document.cookie.length')).toBe(0)
  })

  test('whose tokens change asks again', async () => {
    const { start } = stage()
    const server = await start({ tokens })
    const { page } = await browser.open(server.url)
    await signIn(page, 'guest-0123456789abcdef')
    await page.getByText('Live', { exact: true }).waitFor()
    server.replaceTokens(tokens.slice(0, 1))
    await page.getByText('The server does not know this token.').waitFor()
  })
})
