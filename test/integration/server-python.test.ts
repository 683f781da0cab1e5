/** The client for Python that the docs show, on a real server. */
import { execFile, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { http } from '../../src/drivers/http/driver.ts'
import { createLocks } from '../../src/index.ts'
import { blocksOf } from '../docs/blocks.ts'
import { needProgram } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { LockCalls } from '../support/lock-calls.ts'
import { startServer } from '../support/started-server.ts'
import { folderForTest } from '../support/test-folder.ts'
import { tokenOf } from '../support/tokens.ts'

// Where there is no Python and none may be installed, this throws, and says so.
const python = needProgram('python3', ['python3'])
const run = promisify(execFile)
const worker = path.resolve('test/children/python-worker.py')
const env = { ...process.env, PYTHONPATH: path.resolve('examples'), PYTHONDONTWRITEBYTECODE: '1' }
const options = { timeout: 100_000, env }

test('workers in Python and a client of ours count under one lock, and no count is lost', async () => {
  const { url } = await startServer()
  const file = path.join(folderForTest('python'), 'count')
  writeFileSync(file, '')
  const workers = [1, 2, 3].map(() => run(python, [worker, url, 'orders/42', file, '10', '20'], options))
  const locks = await createLocks({ driver: http(url) })
  onTestFinished(() => locks.close())
  const fences: number[] = []
  for (let turn = 0; turn < 10; turn += 1) {
    await locks.run('orders/42', (lease) => {
      writeFileSync(file, String(Number(readFileSync(file, 'utf8')) + 1))
      fences.push(lease.fence)
    })
  }
  for (const { stdout } of await Promise.all(workers)) {
    const lines = stdout.trim().split('\n')
    expect(lines.pop()).toBe('done')
    const own = lines.map(Number)
    expect(own).toEqual(own.toSorted((one, two) => one - two))
    fences.push(...own)
  }
  expect(readFileSync(file, 'utf8')).toBe('40')
  expect(new Set(fences).size).toBe(40)
  expect(await new LockCalls(url).look('orders/42')).toMatchObject({ held: 0, waiting: 0 })
})

test('a worker in Python holds for longer than its ttl, and knows when its lease was taken from it', async () => {
  const { url } = await startServer()
  const calls = new LockCalls(url)
  const script = `
import time
from leasehold_client import Lock
with Lock("${url}", "orders/42", ttl=3) as lock:
    print(lock.headers["Leasehold-Id"], flush=True)
    while lock.held: time.sleep(0.05)
    print("lost", flush=True)
`
  const child = spawn(python, ['-c', script], { ...options, stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  child.stdout.on('data', (data: Buffer) => (output += data.toString()))
  await eventually(() => output.includes('\n'), 'the id')
  const id = output.trim()
  const shown = await calls.look('orders/42')
  const since = async (): Promise<number> => {
    const [holder] = (await calls.look('orders/42')).holders
    return holder?.fence === shown.holders[0]?.fence ? (holder?.sinceMs ?? 0) : 0
  }
  await eventually(async () => (await since()) > 4000, 'a hold that is longer than its ttl')
  await calls.delete('orders/42', { id })
  await eventually(() => output.endsWith('lost\n'), 'the end of its lease')
})

test('what the docs show of it runs', async () => {
  const token = tokenOf('python')
  const { url } = await startServer({
    tokens: [{ name: 'python', token, namespaces: ['builds'], rights: ['lock'] }],
  })
  const blocks = blocksOf('docs/server.md').filter(({ language }) => language === 'python')
  expect(blocks).toHaveLength(1)
  const text = blocks[0]?.text ?? ''
  expect(text).toContain('http://127.0.0.1:7411')
  const { stdout } = await run(python, ['-c', text.replace('http://127.0.0.1:7411', url)], {
    ...options,
    env: { ...options.env, LEASEHOLD_TOKEN: token },
  })
  expect(stdout).toMatch(/^building with fence \d+\nthe lock is busy: HELD\n$/)
})
