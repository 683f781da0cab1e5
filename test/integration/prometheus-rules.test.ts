import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks } from '../../src/index.ts'
import { prometheus } from '../../src/telemetry/prometheus.ts'
import { needProgram } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { startServer } from '../support/started-server.ts'
import { folderForTest } from '../support/test-folder.ts'

// Debian's Prometheus, which scrapes a client and a server and has our rules.

const run = promisify(execFile)
const rulesFile = path.resolve('deploy/prometheus-rules.yaml')

/** A page of metrics of a client that has locked once. */
async function clientPage(): Promise<string> {
  const locks = await createLocks({ driver: memory(), namespace: 'billing' })
  const metrics = prometheus(locks)
  await locks.run('a', async () => {})
  const server = createServer((_request, response) => {
    void metrics.text().then((text) => response.setHeader('content-type', metrics.contentType).end(text))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    metrics[Symbol.dispose]()
    await locks.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('Prometheus takes the rules, and every query of them and of Grafana, on what it has scraped', async () => {
  const program = needProgram('prometheus', ['prometheus'])
  expect((await run(needProgram('promtool', ['prometheus']), ['check', 'rules', rulesFile])).stdout).toContain(
    'SUCCESS',
  )
  const folder = folderForTest('prometheus')
  const targets = [await clientPage(), new URL((await startServer()).url).host]
  const configuration = path.join(folder, 'prometheus.yml')
  const scrapes = [{ job_name: 'leasehold', static_configs: [{ targets }] }]
  const settings = { global: { scrape_interval: '1s', evaluation_interval: '1s' }, rule_files: [rulesFile] }
  writeFileSync(configuration, JSON.stringify({ ...settings, scrape_configs: scrapes }))
  const address = `127.0.0.1:${await freePort()}`
  const child = spawn(
    program,
    [`--config.file=${configuration}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=${address}`],
    { stdio: 'ignore' },
  )
  const ended = once(child, 'exit')
  onTestFinished(async () => {
    child.kill()
    await ended
  })
  const ask = async (call: string): Promise<{ status: string; data: { result: readonly unknown[] } }> => {
    const answer = await fetch(`http://${address}/api/v1/${call}`).catch(() => undefined)
    // Not ready yet: it says so in plain text.
    return answer?.status === 503 || answer === undefined
      ? { status: 'silent', data: { result: [] } }
      : ((await answer.json()) as never)
  }
  const resultOf = async (query: string) => {
    const { status, data } = await ask(`query?query=${encodeURIComponent(query)}`)
    return status === 'success' ? data.result : undefined
  }
  for (const name of ['leasehold_acquired_total', 'leasehold_wait_seconds_bucket', 'leasehold_server_store_up']) {
    await eventually(async () => ((await resultOf(name)) ?? []).length > 0, name, 60_000)
  }
  const { panels } = JSON.parse(readFileSync('deploy/grafana-dashboard.json', 'utf8')) as {
    panels: { targets: { expr: string }[] }[]
  }
  for (const { expr } of panels.flatMap((panel) => panel.targets)) {
    const query = expr.replaceAll('$__rate_interval', '1m').replaceAll('$namespace', '.*')
    expect({ query, result: await resultOf(query) }).toEqual({ query, result: expect.any(Array) })
  }
  type Rules = { data: { groups: { rules: { name: string; health: string; state: string }[] }[] } }
  const rules = async () => ((await ask('rules')) as unknown as Rules).data.groups.flatMap((group) => group.rules)
  await eventually(
    async () => (await rules()).every(({ health }) => health === 'ok'),
    'rules that were evaluated',
    60_000,
  )
  // All is well, so no alert is on.
  expect((await rules()).filter(({ state }) => state !== 'inactive')).toEqual([])
  expect((await rules()).length).toBeGreaterThan(10)
}, 180_000)
