import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect, type Locks } from '../../src/index.ts'
import { webLocks, type WebLockManager } from '../../src/web-locks/index.ts'
import { Child } from '../support/child.ts'
import { folderForTest } from '../support/test-folder.ts'

let folder: string
let url: string
let locks: Locks
let manager: WebLockManager
const children: Child[] = []

beforeEach(async () => {
  folder = folderForTest('web-locks')
  url = `sqlite:${join(folder, 'locks.sqlite')}`
  locks = await connect(url, { allowForce: true })
  manager = webLocks(locks)
})
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => child.kill()))
  await locks.close()
})

/** A process that asks for a lock. */
async function start(name: string, mode = 'exclusive') {
  const child = new Child('web-lock-holder', [url, name, mode])
  children.push(child)
  const clientId = (await child.line(/client/)).slice('client '.length)
  return { child, clientId }
}

const pendingOnes = async (): Promise<number> => (await manager.query()).pending.length

describe('Web Locks among processes', () => {
  test('a lock held in one process keeps others waiting, and passes on when it is let go', async () => {
    const first = await start('a')
    await first.child.line(/granted/)
    expect(await manager.request('a', { ifAvailable: true }, (lock) => lock)).toBe(null)
    const second = await start('a')
    while ((await pendingOnes()) !== 1);
    expect(await manager.query()).toEqual({
      held: [{ name: 'a', mode: 'exclusive', clientId: first.clientId }],
      pending: [{ name: 'a', mode: 'exclusive', clientId: second.clientId }],
    })
    first.child.process.kill('SIGUSR2')
    await first.child.line(/done/)
    await second.child.line(/granted exclusive/)
  })

  test('shared locks are held by several processes at once', async () => {
    const readers = [await start('a', 'shared'), await start('a', 'shared')]
    for (const { child } of readers) await child.line(/granted shared/)
    expect(await manager.request('a', { ifAvailable: true }, (lock) => lock)).toBe(null)
    expect(await manager.request('a', { mode: 'shared' }, (lock) => lock?.mode)).toBe('shared')
    expect((await manager.query()).held).toHaveLength(2)
  })

  test('a process whose lock is stolen is told with AbortError', async () => {
    const { child } = await start('a')
    await child.line(/granted/)
    expect(await manager.request('a', { steal: true }, () => 'stolen')).toBe('stolen')
    expect(await child.line(/rejected/)).toBe('rejected AbortError')
  })

  test('the lock of a process that was killed passes on', async () => {
    const { child } = await start('a')
    await child.line(/granted/)
    const waiting = manager.request('a', () => 'granted')
    await child.kill()
    expect(await waiting).toBe('granted')
  })
})
