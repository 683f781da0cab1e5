import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { inTime, timeLimit, settledWithin } from '../../src/core/time/bounded.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks } from '../../src/index.ts'
import { around } from '../support/around.ts'

/** A server in another thread, which answers at once whatever becomes of this one. */
const echo = `
  const { createServer } = require('node:net')
  const { parentPort } = require('node:worker_threads')
  const server = createServer((socket) => socket.on('data', (data) => socket.write(data)))
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`
let worker: Worker
let socket: Socket

beforeAll(async () => {
  worker = new Worker(echo, { eval: true })
  const [port] = (await once(worker, 'message')) as [number]
  socket = connect(port, '127.0.0.1').setNoDelay()
  await once(socket, 'connect')
})
afterAll(async () => {
  socket.destroy()
  await worker.terminate()
})

/** Asks, and blocks this thread until the answer has long arrived, and nobody has read it. */
function askAndBlock(blockMs: number): Promise<string> {
  const answered = once(socket, 'data').then(([data]) => String(data))
  socket.write('answer')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs)
  return answered
}

/** Whatever is done next is followed by timers, and only then are sockets read. */
const beforeTimers = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('a call that is answered in time, while the event loop is blocked for longer,', () => {
  test('is not late', async () => {
    const late = (): Error => new Error('late')
    await beforeTimers()
    // The limit begins before the call.
    const asked = Promise.resolve().then(() => askAndBlock(400))
    expect(await inTime(100, asked, late)).toBe('answer')
    await beforeTimers()
    const again = Promise.resolve().then(() => askAndBlock(400))
    expect(await settledWithin(systemEnvironment(), 100, again)).toBe('answer')
  })

  test('is no reason to give up waiting for a lock', async () => {
    const driver = memory()
    const send = async (requests: Parameters<typeof driver.send>[0]): Promise<readonly ClaimStatus[]> => {
      if (requests[0]?.op === 'claim') await askAndBlock(600)
      return driver.send(requests)
    }
    const locks = await createLocks({ driver: around(driver, { send }) })
    await beforeTimers()
    const lease = await locks.acquire('a', { wait: 200 })
    expect(lease.held).toBe(true)
    await locks.close()
  })
})

describe('a limit of time', () => {
  test('is reached, and says after how many whole milliseconds', async () => {
    const never = new Promise<never>(() => {})
    await expect(inTime(20.4, never, (milliseconds) => new Error(`${milliseconds} ms`))).rejects.toThrow('20 ms')
    expect(await settledWithin(systemEnvironment(), 20, never)).toBeUndefined()
  })

  test('longer than a timer can count is not over at once', async () => {
    let reached = 0
    const limit = timeLimit(2 ** 32, () => (reached += 1))
    const timer = systemEnvironment().timer(2 ** 32, () => (reached += 1))
    await pause(50)
    limit.cancel()
    timer.cancel()
    expect(reached).toBe(0)
  })

  test('that is cancelled is not reached, also when its time has come', async () => {
    let reached = 0
    const limit = timeLimit(1, () => (reached += 1))
    // Runs after the limit's timer and before what that has put off.
    setTimeout(() => limit.cancel(), 1)
    // Both timers are due when the event loop turns next, so that nothing comes between them.
    const until = performance.now() + 5
    while (performance.now() < until);
    await pause(30)
    expect(reached).toBe(0)
  })
})
