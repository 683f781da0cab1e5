import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { EventStream } from '../../src/dashboard/page/event-stream.js'

test('events are the same in whatever pieces their text arrives', () => {
  const event = fc.record({ event: fc.constantFrom('change', 'totals'), data: fc.jsonValue() })
  fc.assert(
    fc.property(fc.array(event), fc.array(fc.nat({ max: 40 })), (events, cuts) => {
      let text = ':\n\n'
      for (const each of events) text += `event: ${each.event}\ndata: ${JSON.stringify(each.data)}\n\n`
      const stream = new EventStream()
      const received = []
      for (const cut of [...cuts, text.length]) {
        received.push(...stream.push(text.slice(0, cut)))
        text = text.slice(cut)
      }
      expect(received).toEqual(JSON.parse(JSON.stringify(events)))
    }),
  )
})

test('what is no event is passed over', () => {
  const stream = new EventStream()
  expect(stream.push(': awake\n\nevent: change\ndata: {no json\n\nnonsense\r\n\r\n')).toEqual([])
  expect(stream.push('data: 1\r\n\r\n')).toEqual([{ event: 'message', data: 1 }])
})
