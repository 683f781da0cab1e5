import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { folderForTest } from '../support/test-folder.ts'

let folder: string
let url: string
const children: Child[] = []

beforeEach(() => {
  folder = folderForTest('client')
  url = `sqlite:${join(folder, 'locks.sqlite')}`
})
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => child.kill()))
})

function play(story: string): Child {
  const child = new Child('client-story', [story, url], { LEASEHOLD_STATE_DIR: folder })
  children.push(child)
  return child
}

describe('a process', () => {
  test.each(['hold and end', 'hold with a heartbeat thread and end'])(
    'is not kept alive by a lease: %s',
    async (story) => {
      const child = play(story)
      expect(await child.ended()).toBe(0)
      expect(child.lines).toEqual(['holding'])
    },
  )

  test('is kept alive while it waits for a lock', async () => {
    const locks = await connect(url)
    const lease = await locks.acquire('a')
    const child = play('wait')
    await child.line(/waiting/)
    while ((await locks.inspect('a'))?.waiters.length !== 1);
    await lease.release()
    expect(await child.ended()).toBe(0)
    expect(Number(child.lines[1]?.replace('granted ', ''))).toBeGreaterThan(lease.fence)
    await locks.close()
  })

  // Whoever closes a file by itself takes the locks of SQLite on it from the whole process. The next process to go
  // would then remove the log in which the first one's claims are.
  test.each(['two clients', 'a heartbeat thread', 'a client that was closed before'])(
    'with %s keeps its locks when other processes come and go',
    async (story) => {
      const child = play(story)
      expect(await child.ended()).toBe(0)
      expect(child.lines).toEqual(['before: granted', 'while held: refused'])
    },
  )

  test('whose event loop is blocked past the ttl has lost its lease, and keeps it with a heartbeat thread', async () => {
    const child = play('block')
    expect(await child.ended()).toBe(0)
    expect(child.lines).toEqual([
      'thread false: held false, fence kept false',
      'thread true: held true, fence kept true',
    ])
  })

  test('that is killed and started again under its name takes its own lock back at once, with a new fence', async () => {
    const first = play('hold by name')
    const [, fence, runner] = /granted (\d+) to (\S+)/.exec(await first.line(/granted/)) ?? []
    const second = play('hold by name')
    expect(await second.ended()).not.toBe(0)
    expect(second.complaints).toContain('HELD: The runner name "worker-1" is in use')
    await first.kill()
    const third = play('hold by name')
    const [, nextFence, sameRunner] = /granted (\d+) to (\S+)/.exec(await third.line(/granted/)) ?? []
    expect(sameRunner).toBe(runner)
    expect(Number(nextFence)).toBeGreaterThan(Number(fence))
  })

  test('that loses its store is told so, and nothing throws out of a timer', async () => {
    const child = play('lose the store')
    expect(await child.ended()).toBe(0)
    expect(child.lines).toContain('lost: LOST')
    expect(child.lines).toContain('{"released":false,"reason":"lost"}')
  })
})
