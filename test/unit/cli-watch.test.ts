import { describe, expect, test, vi } from 'vitest'
import { connect, LeaseholdError } from '../../src/index.ts'
import { cliBench } from './support/cli-bench.ts'

describe('watch', () => {
  test('goes on when a store that has answered is away for a while', async () => {
    const { leasehold, shown, store, context } = cliBench()
    await using locks = await connect(store)
    const opening = context.connect
    context.connect = async (...where) => {
      const watched = await opening(...where)
      const inspect = watched.inspect.bind(watched)
      vi.spyOn(watched, 'inspect')
        .mockImplementationOnce(inspect)
        .mockRejectedValueOnce(new LeaseholdError('UNAVAILABLE', 'It is gone.', { reason: 'network' }))
        .mockRejectedValueOnce(new LeaseholdError('UNAVAILABLE', 'It is gone.', { reason: 'network' }))
      return watched
    }
    const watching = leasehold('watch', 'a')
    await expect.poll(() => shown.errors, { timeout: 20_000 }).not.toBe('')
    const lease = await locks.acquire('a')
    await expect.poll(() => shown.output, { timeout: 20_000 }).toContain(`with fence ${lease.fence}`)
    process.emit('SIGINT', 'SIGINT')
    expect(await watching).toBe(130)
    expect(shown.output.split('\n')).toHaveLength(3)
    expect(shown.errors).toBe('leasehold: It is gone. Trying again every second.\nleasehold: the store answers again\n')
  })

  test('ends when the store refuses, or never answered', async () => {
    for (const reason of ['auth', 'network']) {
      const { leasehold, shown, context } = cliBench()
      const opening = context.connect
      context.connect = async (...where) => {
        const watched = await opening(...where)
        const inspect = watched.inspect.bind(watched)
        const spy = vi.spyOn(watched, 'inspect')
        if (reason === 'auth') spy.mockImplementationOnce(inspect)
        spy.mockRejectedValueOnce(new LeaseholdError('UNAVAILABLE', 'No.', { reason }))
        return watched
      }
      expect(await leasehold('watch', 'a')).toBe(69)
      expect(shown.errors).toBe('leasehold: No.\n')
    }
  })

  test('is interrupted while a store does not answer', async () => {
    const silent: { isAsked: boolean; answer: (error: Error) => void } = { isAsked: false, answer: () => {} }
    const { leasehold, shown, context } = cliBench()
    context.connect = () =>
      new Promise((_, reject) => {
        silent.isAsked = true
        silent.answer = reject
      })
    const watching = leasehold('watch', 'a')
    expect(silent.isAsked).toBe(true)
    process.emit('SIGTERM', 'SIGTERM')
    expect(await watching).toBe(143)
    expect(shown.errors).toBe('')
    silent.answer(new Error('too late'))
  })
})
