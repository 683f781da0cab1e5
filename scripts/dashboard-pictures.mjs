// Takes the pictures of the dashboard for docs/, in Debian's Chromium: `node scripts/dashboard-pictures.mjs`, after both builds. The store is a
// Redis, or with the word `postgres` a PostgreSQL, on which test/children/operators-mess.ts makes a realistic mess. An hour of traffic passes
// in three minutes for the charts; `--seconds 60` takes less, and a folder as last word keeps the pictures out of docs/.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const fromRoot = (file) => import(pathToFileURL(path.join(root, file)).href)
const { Chromium } = await fromRoot('.build/test/support/chromium.js')
const { RedisServer } = await fromRoot('.build/test/support/redis-server.js')
const { PostgresServer } = await fromRoot('.build/test/support/postgres-server.js')
const { systemEnvironment } = await fromRoot('.build/src/core/time/environment.js')
const { serve } = await fromRoot('.build/src/server/index.js')
const { dashboard } = await fromRoot('.build/src/server/operators.js')

const { values, positionals } = parseArgs({
  options: { seconds: { type: 'string', default: '180' } },
  allowPositionals: true,
})
const seconds = Number(values.seconds)
const onPostgres = positionals.includes('postgres')
const folder = path.resolve(positionals.find((word) => word !== 'postgres') ?? path.join(root, 'docs'))

/** A wall clock that makes an hour of the time that there is, and then agrees with all others. */
function hurriedEnvironment() {
  const environment = systemEnvironment()
  const startedAt = environment.now()
  const hour = 3_600_000
  const passed = () => Math.min(1, (environment.now() - startedAt) / (seconds * 1000))
  return { ...environment, now: () => environment.now(), wall: () => environment.wall() - hour * (1 - passed()) }
}

const wide = { width: 1440, height: 1000 }
const pictures = [
  { name: 'dashboard', hash: '', shown: '#problems a', size: wide, theme: 'light' },
  { name: 'dashboard-dark', hash: '', shown: '#problems a', size: wide, theme: 'dark' },
  {
    name: 'dashboard-lock',
    hash: 'lock=shop%2Fnamed%3Astock%2Fnightly-sync',
    shown: '.queue li',
    size: wide,
    theme: 'light',
  },
  {
    name: 'dashboard-waits',
    hash: 'tab=waits',
    shown: '.picture svg',
    size: { width: 1440, height: 1400 },
    theme: 'light',
  },
  { name: 'dashboard-charts', hash: 'tab=charts', shown: '#charts svg', size: wide, theme: 'dark' },
  { name: 'dashboard-phone', hash: '', shown: '#lock-rows a', size: { width: 390, height: 1500 }, theme: 'light' },
]

const store = onPostgres ? await PostgresServer.start() : await RedisServer.start()
const server = await serve({ store: store.url, port: 0, routes: dashboard({ environment: hurriedEnvironment() }) })
const mess = spawn(process.execPath, [path.join(root, '.build/test/children/operators-mess.js'), store.url], {
  stdio: ['ignore', 'pipe', 'inherit'],
})
const browser = await Chromium.start()
try {
  await once(mess.stdout, 'data')
  console.log(`${server.url} is ready; pictures in ${seconds} s`)
  const { page, complaints } = await browser.open(server.url)
  await pause(seconds * 1000)
  for (const { name, hash, shown, size, theme } of pictures) {
    await page.setViewportSize(size)
    await page.evaluate(`localStorage.setItem('leasehold-theme', '${theme}')`)
    await page.goto(`${server.url}/#${hash}`)
    await page.reload()
    await page.locator(shown).first().waitFor()
    await pause(2500)
    await page.screenshot({ path: path.join(folder, `${name}.png`) })
  }
  if (complaints.length > 0) console.log(complaints)
} finally {
  await browser.stop()
  mess.kill()
  await server.close()
  await store.stop()
}
