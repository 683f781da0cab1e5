/** Locks through a Leasehold server over the memory store, beside a bare `node:http` echo of the same batches. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { LockDriver, Request } from '../src/core/contract/driver.ts'
import { http } from '../src/drivers/http/driver.ts'
import { bodiesOf } from '../src/drivers/http/server-client.ts'
import { createLocks } from '../src/index.ts'
import { tokenOf } from '../test/support/tokens.ts'
import type { ServerKind } from './children/http-servers.ts'
import { interleave, report } from './report.ts'
import { nextMessage, startChild } from './support/child.ts'
import { EchoClient } from './support/echo-client.ts'

const keysAtOnce = 1000
const wavesPerRound = 20
const pairsPerRound = 500
const rounds = 15
/** Not counted: code is still being compiled. */
const roundsToWarmUp = 5
const pairsPerSecondBar = 20_000
const speedToEchoBar = 0.5
/** As `leasehold/http` is told by a server with the default limits. */
const requestsPerCallMax = 1000
const bodyBytesMax = 1_048_576

const names = Array.from({ length: keysAtOnce }, (_, index) => `orders/${index}`)
const children: ChildProcess[] = []

async function start(kind: ServerKind): Promise<string> {
  const child = startChild('http-servers', kind)
  children.push(child)
  return String(await nextMessage(child))
}

/** The batches that were sent since it was set. */
let recorded: (readonly Request[])[] | undefined

/** Records the batches that pass. */
function recording(driver: LockDriver): LockDriver {
  const send = driver.send.bind(driver)
  driver.send = (requests) => {
    recorded?.push(requests)
    return send(requests)
  }
  return driver
}

/** The bodies of what is sent meanwhile, as the driver writes them. */
async function bodiesDuring(work: () => Promise<unknown>): Promise<readonly string[]> {
  recorded = []
  await work()
  const batches = recorded
  recorded = undefined
  return batches.flatMap((batch) => bodiesOf(batch, requestsPerCallMax, bodyBytesMax).map(({ text }) => text))
}

try {
  const driver = recording(http({ url: await start('leasehold'), token: tokenOf('bench') }))
  const locks = await createLocks({ driver })
  const echo = new EchoClient(await start('echo'))
  const pair = async (name: string): Promise<void> => {
    const lease = await locks.acquire(name)
    await lease.release()
  }
  const wave = (): Promise<unknown> => Promise.all(names.map(pair))
  const waveBodies = await bodiesDuring(wave)
  const pairBodies = await bodiesDuring(() => pair('orders/1'))
  const pairsPerSecond = async (pairs: number, repeat: number, work: () => Promise<unknown>): Promise<number> => {
    const startedAt = performance.now()
    for (let count = 0; count < repeat; count += 1) await work()
    return (pairs * repeat * 1000) / (performance.now() - startedAt)
  }
  const echoing = async (bodies: readonly string[]): Promise<void> => {
    for (const body of bodies) await echo.echo(body)
  }
  const contenders = {
    leasehold: () => pairsPerSecond(keysAtOnce, wavesPerRound, wave),
    echo: () => pairsPerSecond(keysAtOnce, wavesPerRound, () => echoing(waveBodies)),
    leaseholdAlone: () => pairsPerSecond(1, pairsPerRound, () => pair('orders/1')),
    echoAlone: () => pairsPerSecond(1, pairsPerRound, () => echoing(pairBodies)),
  }
  await interleave(roundsToWarmUp, contenders)
  const { medians, ratio } = await interleave(rounds, contenders)
  await locks.close()
  echo.close()

  const speedToEcho = ratio('leasehold', 'echo')
  report({
    name: 'server',
    figures: {
      keysAtOnce,
      callsPerWave: waveBodies.length,
      bytesPerWave: waveBodies.reduce((bytes, body) => bytes + body.length, 0),
      pairsPerSecond: medians.leasehold,
      echoPairsPerSecond: medians.echo,
      speedToEcho,
      pairAloneMs: 1000 / medians.leaseholdAlone,
      echoPairAloneMs: 1000 / medians.echoAlone,
    },
    bars: {
      // Either is enough: the first says that a server of today's kind is fast enough, the second that a slow machine is no excuse.
      'speed, by the nearer of 20,000 pairs a second and half of the echo': {
        title: 'server, 1,000 locks at once: the nearer of 20,000 pairs a second and half the speed of an echo',
        actual: Math.max(medians.leasehold / pairsPerSecondBar, speedToEcho / speedToEchoBar),
        atLeast: 1,
      },
      timeToEchoAlone: {
        title: 'server, one lock at a time: time of a pair',
        actual: ratio('echoAlone', 'leaseholdAlone'),
        atMost: 2.5,
        peer: {
          name: 'a bare `node:http` echo of the same bodies',
          kind: 'hand-written',
          ours: 1000 / medians.leaseholdAlone,
          theirs: 1000 / medians.echoAlone,
          unit: 'ms',
        },
      },
    },
  })
} finally {
  const ends = children.filter(({ exitCode }) => exitCode === null).map((child) => once(child, 'exit'))
  for (const child of children) if (child.connected) child.disconnect()
  await Promise.all(ends)
}
