import { expect } from '../vitest.ts'
import { codeOf, rejectionOf, settlesWithin } from './eventually.ts'
import type { PrimitiveFact } from './fact.ts'

/** Many readers or one writer, and changing from one to the other. */
export function readWrite(fact: PrimitiveFact): void {
  fact('readers share, and a writer is alone', ['shared'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    const readers = [await member.locks.readWrite('a').read(), await rival.locks.readWrite('a').read()]
    expect(await member.locks.readWrite('a').tryWrite()).toBeNull()
    const writing = rival.locks.readWrite('a').write()
    await group.contended(rival)
    for (const reader of readers) await reader.release()
    const writer = await writing
    expect(await member.locks.readWrite('a').tryRead()).toBeNull()
    await writer.release()
    expect(await member.locks.readWrite('a').tryRead()).not.toBeNull()
  })

  fact('a store without shared locks refuses readers, and lets writers in', ['no shared'], async (group) => {
    const { locks } = await group.member()
    expect(await codeOf(locks.readWrite('a').read())).toBe('UNSUPPORTED')
    expect(await codeOf(locks.readWrite('a').tryRead())).toBe('UNSUPPORTED')
    await group.expectClaims(0)
    await locks.readWrite('a').runWrite(({ held }) => expect(held).toBe(true))
  })

  fact('a store without conversions refuses them, and the lease stays as it was', ['no convert'], async (group) => {
    const { locks } = await group.member()
    const writer = await locks.readWrite('a').write()
    expect(await codeOf(writer.downgrade())).toBe('UNSUPPORTED')
    expect(writer.held).toBe(true)
    expect(await writer.release()).toEqual({ released: true })
  })

  fact('readers and writers take turns as they came', ['shared', 'queue'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    const readers = [await member.locks.readWrite('a').read(), await rival.locks.readWrite('a').read()]
    const writing = member.locks.readWrite('a').write()
    await group.expectClaims(3)
    const queued = rival.locks.readWrite('a').read()
    await group.expectClaims(4)
    for (const reader of readers) await reader.release()
    const writer = await writing
    expect(await settlesWithin(100, queued)).toBe(false)
    await writer.release()
    await (await queued).release()
  })

  fact(
    'an upgrade goes ahead of every waiter and keeps the read lock until then',
    ['convert', 'shared', 'queue'],
    async (group) => {
      const [member, rival] = [await group.member({ ttl: 3000 }), await group.member({ ttl: 5000 })]
      const [reader, second] = [await member.locks.readWrite('a').read(), await rival.locks.readWrite('a').read()]
      const writing = rival.locks.readWrite('a').write()
      await group.expectClaims(3)
      const upgrading = reader.upgrade()
      expect(await settlesWithin(3500, upgrading)).toBe(false)
      expect(reader.held).toBe(true)
      await second.release()
      const writer = await upgrading
      expect(writer.fence).toBeGreaterThan(reader.fence)
      expect(await settlesWithin(3500, writing)).toBe(false)
      expect([reader.held, writer.held, reader.signal.aborted]).toEqual([false, true, false])
      expect(member.emitted).not.toContain('lost')
      await writer.release()
      await (await writing).release()
    },
  )

  fact(
    'of two that upgrade one is told DEADLOCK and goes on reading',
    ['convert', 'shared', 'queue'],
    async (group) => {
      const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
      const [first, second] = [await member.locks.readWrite('a').read(), await rival.locks.readWrite('a').read()]
      const upgrading = first.upgrade()
      await group.expectClaims(3)
      expect(await rejectionOf(second.upgrade())).toMatchObject({ code: 'DEADLOCK' })
      expect(second.held).toBe(true)
      await second.release()
      expect((await upgrading).held).toBe(true)
    },
  )

  fact('an upgrade given up leaves the read lock', ['convert', 'shared', 'queue'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 3000 }), await group.member({ ttl: 5000 })]
    const [reader] = [await member.locks.readWrite('a').read(), await rival.locks.readWrite('a').read()]
    expect(await rejectionOf(reader.upgrade({ wait: 3000 }))).toMatchObject({ code: 'TIMEOUT' })
    await group.expectClaims(2)
    expect(await settlesWithin(3500, new Promise((resolve) => reader.signal.addEventListener('abort', resolve)))).toBe(
      false,
    )
    expect(await reader.release()).toEqual({ released: true })
  })

  fact('an upgrade whose replies are lost is not lost', ['convert', 'shared'], async (group) => {
    const { locks, driver, emitted } = await group.member({ ttl: 5000 })
    const reader = await locks.readWrite('a').read()
    driver.plan = { dropReply: 1, only: ({ op }) => op === 'claim' }
    const upgrading = reader.upgrade()
    expect(await settlesWithin(300, upgrading)).toBe(false)
    driver.plan = {}
    expect((await upgrading).held).toBe(true)
    expect(emitted).not.toContain('lost')
    await group.expectClaims(1)
  })

  fact('a downgrade lets waiting readers in at once', ['convert', 'shared', 'queue'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 30_000 }), await group.member({ ttl: 30_000 })]
    const writer = await member.locks.readWrite('a').write()
    const reading = [rival.locks.readWrite('a').read(), rival.locks.readWrite('a').read()]
    await group.expectClaims(3)
    const reader = await writer.downgrade()
    expect(await settlesWithin(8000, Promise.all(reading))).toBe(true)
    expect(await rival.locks.readWrite('a').tryWrite()).toBeNull()
    expect(reader.held).toBe(true)
  })
}
