import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { listenForAbort, stopListeningForAbort } from '../../src/api/client/abort-listeners.ts'
import { connect } from '../../src/index.ts'

test('a hundred who listen to one signal are one listener, and all are told', () => {
  const { signal, abort } = listeners()
  const told: number[] = []
  const actions = Array.from({ length: 100 }, (_, index) => () => void told.push(index))
  for (const action of actions) listenForAbort(signal, action)
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  for (const action of actions.slice(7, 8)) stopListeningForAbort(signal, action)
  abort()
  expect(told).toEqual([...actions.keys()].filter((index) => index !== 7))
})

test('who stops listening while others are told is told all the same, and nobody twice', () => {
  const { signal, abort } = listeners()
  const told: string[] = []
  const second = (): void => void told.push('second')
  listenForAbort(signal, () => {
    told.push('first')
    stopListeningForAbort(signal, second)
  })
  listenForAbort(signal, second)
  abort()
  expect(told).toEqual(['first', 'second'])
})

test('nothing is left at a signal when nobody listens any more', () => {
  const { signal } = listeners()
  const action = (): void => {}
  listenForAbort(signal, action)
  stopListeningForAbort(signal, action)
  stopListeningForAbort(signal, action)
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

test('many acquisitions may share a signal, waiting or granted', async () => {
  const controller = new AbortController()
  const { signal } = controller
  await using locks = await connect('memory:')
  await locks.acquire('a', { signal })
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  const waiting = Array.from({ length: 20 }, () => locks.acquire('a', { signal }))
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  controller.abort()
  const codes = await Promise.all(waiting.map((each) => each.catch((error: { code: string }) => error.code)))
  expect(new Set(codes)).toEqual(new Set(['ABORTED']))
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

function listeners(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
