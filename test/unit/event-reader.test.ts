import { describe, expect, test } from 'vitest'
import { EventReader, type ServerEvent } from '../../src/drivers/http/event-reader.ts'

function read(pieces: Iterable<string>): { readonly events: ServerEvent[]; readonly goesOn: boolean } {
  const events: ServerEvent[] = []
  const reader = new EventReader((event) => events.push(event))
  return { events, goesOn: [...pieces].every((piece) => reader.read(piece)) }
}

describe('a stream of events', () => {
  test.each(['\n', '\r\n', '\r'])('is the same in whatever pieces it comes, with lines that end in %j', (end) => {
    const lines = [':', '', 'event: ask', 'data: 1', 'data: 2', '', 'event: status', 'data: 3', '', ':', '', '']
    const text = lines.join(end)
    const expected = [
      { event: 'ask', data: '1\n2' },
      { event: 'status', data: '3' },
    ]
    for (let cut = 0; cut < text.length; cut += 1) {
      expect(read([text.slice(0, cut), text.slice(cut)]).events).toEqual(expected)
    }
    expect(read(text).events).toEqual(expected)
  })

  test('is given up once an event is too long, in one line or in several', () => {
    expect(read(['data: ', 'x'.repeat(1_048_577)]).goesOn).toBe(false)
    const line = `data: ${'x'.repeat(100_000)}\n`
    expect(read(Array.from({ length: 10 }, () => line)).goesOn).toBe(true)
    expect(read(Array.from({ length: 11 }, () => line)).goesOn).toBe(false)
  })

  test('costs no more for a long line in small pieces than for a short one', () => {
    const pieces = Array.from({ length: 500_000 }, () => 'x')
    const startedAt = performance.now()
    expect(read(pieces).goesOn).toBe(true)
    // Milliseconds; a minute if every piece looked through all that came before.
    expect(performance.now() - startedAt).toBeLessThan(10_000)
  })
})
