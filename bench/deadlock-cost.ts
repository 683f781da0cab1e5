/** What deadlock detection costs a Redis that others share: twenty clients wait beside a million foreign keys. */
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type Locks } from '../src/index.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import { report } from './report.ts'

const clientCount = 20
const measureMs = 10_000
const foreignKeys = 1_000_000

const server = await RedisServer.start({ settings: { 'enable-debug-command': 'yes' } })
await server.cli('DEBUG', 'POPULATE', String(foreignKeys), 'foreign', '16')
const holder = await connect(server.url)
const clients = await Promise.all(Array.from({ length: clientCount }, () => connect(server.url)))

/** The processor time that the server has used, in seconds: fields 14 and 15 of its stat, in hundredths. */
function serverSeconds(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** The server's share of a core, in percent, while nothing but waiting goes on. */
async function serverShare(): Promise<number> {
  await pause(2000)
  const [before, since] = [serverSeconds(), performance.now()]
  await pause(measureMs)
  return (100 * 1000 * (serverSeconds() - before)) / (performance.now() - since)
}

/** Runs a body that ends when `open` is called. */
function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

/** All clients wait for one lock. Its holder does not wait. */
async function oneQueue(): Promise<number> {
  const { opened, open } = gate()
  const holding = holder.run('hot', () => opened)
  await pause(100)
  const waits = clients.map((locks) => locks.run('hot', () => {}))
  const share = await serverShare()
  open()
  await Promise.all([holding, ...waits])
  return share
}

/** Ten chains of two: the second client of a pair waits for the first, and the first for a holder that does not wait. */
async function pairs(): Promise<number> {
  const { opened, open } = gate()
  const all: Promise<void>[] = []
  for (let pair = 0; pair < clientCount / 2; pair += 1) {
    const [first, second] = clients.slice(2 * pair) as [Locks, Locks]
    all.push(holder.run(`end ${pair}`, () => opened))
    await pause(20)
    all.push(first.run(`middle ${pair}`, () => first.run(`end ${pair}`, () => {})))
    await pause(20)
    all.push(second.run(`own ${pair}`, () => second.run(`middle ${pair}`, () => {})))
  }
  const share = await serverShare()
  open()
  await Promise.all(all)
  return share
}

/** The longest of ten deadlocks of `size` clients, from the last claim to the victim's error. */
async function deadlockMs(size: number): Promise<number> {
  let longest = 0
  for (let turn = 0; turn < 10; turn += 1) {
    const ring = clients.slice(0, size)
    const victims: number[] = []
    const since = performance.now()
    await Promise.all(
      ring.map((locks, index) =>
        locks
          .run(`ring ${index}`, async () => {
            await pause(50)
            await locks.run(`ring ${(index + 1) % size}`, () => {})
          })
          .catch(() => victims.push(performance.now() - since)),
      ),
    )
    longest = Math.max(longest, victims[0] ?? Infinity)
  }
  return longest
}

const idle = await serverShare()
const oneQueuePercent = await oneQueue()
const pairsPercent = await pairs()
const [ofTwoMs, ofFiveMs] = [await deadlockMs(2), await deadlockMs(5)]
await Promise.all([holder, ...clients].map((locks) => locks.close()))
await server.stop()

report({
  name: 'deadlock-cost',
  figures: { idlePercent: idle },
  bars: {
    oneQueuePercent: {
      title: 'Redis: processor time of the server while 20 clients wait in one queue',
      unit: '% of a core',
      actual: oneQueuePercent,
      atMost: 2,
    },
    pairsPercent: {
      title: 'Redis: processor time of the server while 20 clients wait in ten chains of two',
      unit: '% of a core',
      actual: pairsPercent,
      atMost: 10,
    },
    deadlockOfTwoMs: {
      title: 'Redis: longest time until a deadlock of 2 clients is broken',
      unit: 'ms',
      actual: ofTwoMs,
      atMost: 3000,
    },
    deadlockOfFiveMs: {
      title: 'Redis: longest time until a deadlock of 5 clients is broken',
      unit: 'ms',
      actual: ofFiveMs,
      atMost: 3000,
    },
  },
})
