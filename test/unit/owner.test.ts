import { describe, expect, test } from 'vitest'
import type { LeaseholdError } from '../../src/index.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'

describe('reentrancy', () => {
  test('lets a named owner in again, counted, with the same fence', async () => {
    const { client, advance } = locksBench()
    const [locks, other] = [await client(), await client()]
    const options = { owner: 'import', reentrant: true }
    const outer = await locks.acquire('a', options)
    const inner = await locks.acquire('a', options)
    expect(inner.fence).toBe(outer.fence)
    const waiting = other.acquire('a')
    expect(await inner.release()).toEqual({ released: false, reason: 'entered-again' })
    await advance(1000)
    expect(await isSettled(waiting)).toBe(false)
    expect(await outer.release()).toEqual({ released: true })
    await waiting
  })

  test('is for one owner only: the same name in another client is another owner', async () => {
    const { client } = locksBench()
    const [locks, other] = [await client(), await client()]
    await locks.acquire('a', { owner: 'import', reentrant: true })
    expect(await other.tryAcquire('a', { owner: 'import', reentrant: true })).toBeNull()
    expect(await locks.tryAcquire('a', { owner: 'export', reentrant: true })).toBeNull()
    expect(await locks.tryAcquire('a', { reentrant: true })).toBeNull()
  })

  test('reads again under a write lock, and does not write under a read lock', async () => {
    const { client } = locksBench()
    const rw = (await client()).readWrite('a', { owner: 'p', reentrant: true })
    const writer = await rw.write()
    expect(await rw.read()).toBe(writer)
    await writer.release()
    await writer.release()
    await rw.read()
    expect(await rw.tryWrite()).toBeNull()
  })

  test('of a lock taken plainly inside a body, by the same body', async () => {
    const locks = await locksBench().client()
    await locks.run('a', async () => {
      const first = await locks.acquire('b', { reentrant: true })
      expect(await locks.acquire('b', { reentrant: true })).toBe(first)
    })
  })

  test('forbids to convert what was entered more than once', async () => {
    const locks = await locksBench().client()
    const rw = locks.readWrite('a', { owner: 'p', reentrant: true })
    const reader = await rw.read()
    await rw.read()
    await expect(reader.upgrade()).rejects.toMatchObject({ code: 'INVALID' })
    expect(reader.held).toBe(true)
  })

  test('forbids to enter what is being converted: whoever left it would let go of the writer', async () => {
    const { client } = locksBench()
    const [locks, other] = [await client(), await client()]
    const rw = locks.readWrite('a', { owner: 'p', reentrant: true })
    const reader = await other.readWrite('a').read()
    const upgrading = (await rw.read()).upgrade()
    await expect(rw.runRead(() => {})).rejects.toMatchObject({ code: 'INVALID' })
    await reader.release()
    expect((await upgrading).held).toBe(true)
  })
})

describe('an owner that would wait for itself', () => {
  test('is told at once, with where it acquired', async () => {
    const locks = await locksBench().client()
    await locks.acquire('a', { owner: 'p' })
    const error = await locks.acquire('a', { owner: 'p' }).catch((reason: unknown) => reason as LeaseholdError)
    expect(error).toMatchObject({ code: 'DEADLOCK', scope: 'a' })
    expect((error as LeaseholdError).message).toContain('owner.test.ts')
    expect(((error as LeaseholdError).cause as Error).stack).toContain('owner.test.ts')
    await expect(locks.tryAcquire('a', { owner: 'p', wait: '1h' })).rejects.toMatchObject({ code: 'DEADLOCK' })
  })

  test('is told without where if that is not to be remembered', async () => {
    const locks = await locksBench().client({ traceOwners: false })
    await locks.acquire('a', { owner: 'p' })
    const error = await locks.acquire('a', { owner: 'p' }).catch((reason: unknown) => reason as LeaseholdError)
    expect(error).toMatchObject({ code: 'DEADLOCK' })
    expect((error as LeaseholdError).message).not.toContain('acquired at')
  })

  test('in a run body, and in a body inside it', async () => {
    const locks = await locksBench().client()
    await locks.run('a', async () => {
      await expect(locks.acquire('a')).rejects.toMatchObject({ code: 'DEADLOCK' })
      await expect(locks.acquireAll(['b', 'a'])).rejects.toMatchObject({ code: 'DEADLOCK' })
      await locks.run('b', async () => {
        await expect(locks.run('a', () => {})).rejects.toMatchObject({ code: 'DEADLOCK' })
      })
    })
    expect((await locks.list()).locks).toEqual([])
  })

  test('for the last permit, or for writing what it reads', async () => {
    const locks = await locksBench().client()
    const semaphore = locks.semaphore('s', 2, { owner: 'p' })
    await semaphore.acquire()
    await semaphore.acquire()
    await expect(semaphore.acquire()).rejects.toMatchObject({ code: 'DEADLOCK' })
    const rw = locks.readWrite('a', { owner: 'p' })
    await rw.read()
    await expect(rw.write()).rejects.toMatchObject({ code: 'DEADLOCK' })
  })

  test('is not one that does not wait, takes by force, or is a sibling', async () => {
    const { client, advance } = locksBench()
    const locks = await client({ allowForce: true })
    await locks.run('a', async () => {
      expect(await locks.tryAcquire('a')).toBeNull()
      const order: number[] = []
      const body = async (turn: number) => void order.push(turn)
      // Side by side in one body: each waits for the other to finish, not for itself.
      await Promise.all([locks.run('b', () => body(1)), locks.run('b', () => body(2))])
      const siblings = Promise.all(
        [3, 4].map(async (turn) => {
          await using lease = await locks.acquire('c')
          if (lease.held) await body(turn)
        }),
      )
      await advance(5000)
      await siblings
      expect(order).toEqual([1, 2, 3, 4])
    })
    await locks.acquire('d', { owner: 'p' })
    expect(await locks.acquire('d', { owner: 'p', onConflict: 'force' })).toMatchObject({ held: true })
  })
})
