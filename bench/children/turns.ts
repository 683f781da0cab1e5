/** Forked by `embedded`, several at once: on each message, takes one lock again and again and sends when it had it. */
import { setTimeout as pause } from 'node:timers/promises'
import { lock, type LockOptions } from 'proper-lockfile'
import { connect } from '../../src/index.ts'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { bareQueue, type Take } from '../support/bare-queue.ts'
import { ready } from '../support/child.ts'

export interface TurnsOrder {
  readonly directory: string
  readonly contender: 'leasehold' | 'bareQueue' | 'properLockfile'
  /** The retry options of proper-lockfile. */
  readonly retries?: LockOptions['retries'] | undefined
}

/** Sent to each when all have said that they are ready: times on the clock that all processes of the machine share. */
export interface TurnsStart {
  readonly startAt: number
  readonly endAt: number
  readonly holdMs: number
}

/** One turn: when acquire was called, when that call had resolved, and when release was called. */
export type Turn = readonly [calledAt: number, acquiredAt: number, releasedAt: number]

const order = JSON.parse(process.argv[2] ?? '') as TurnsOrder

async function leasehold(): Promise<{ take: Take; close: () => Promise<void> }> {
  const locks = await connect(`sqlite:${order.directory}/locks.sqlite`)
  return {
    async take() {
      const lease = await locks.acquire('turns')
      return () => lease.release()
    },
    close: () => locks.close(),
  }
}

function properLockfile(): { take: Take; close: () => Promise<void> } {
  const options: LockOptions = { realpath: false, retries: order.retries ?? 0 }
  return { take: () => lock(`${order.directory}/turns`, options), close: () => Promise.resolve() }
}

const makers = { leasehold, bareQueue: () => bareQueue(order.directory), properLockfile }
const { take, close } = await makers[order.contender]()

async function takeTurns({ startAt, endAt, holdMs }: TurnsStart): Promise<Turn[]> {
  const turns: Turn[] = []
  await pause(Math.max(0, startAt - monotonicMs()))
  for (let calledAt = monotonicMs(); calledAt < endAt; calledAt = monotonicMs()) {
    const giveBack = await take()
    const acquiredAt = monotonicMs()
    if (holdMs > 0) await pause(holdMs)
    turns.push([calledAt, acquiredAt, monotonicMs()])
    await giveBack()
  }
  return turns
}

async function end(): Promise<void> {
  await close()
  process.disconnect()
}

process.on('message', (message: TurnsStart | 'end') => {
  void (message === 'end' ? end() : takeTurns(message).then((turns) => process.send?.(turns)))
})
ready()
