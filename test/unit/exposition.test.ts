import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { exposition, type Family } from '../../src/telemetry/exposition.ts'
import { parseExposition } from '../support/exposition-parser.ts'

const anyText = fc.string({ unit: 'binary' })
// Those that mean something in the format come often.
const anyValue = fc.oneof(anyText, fc.string({ unit: fc.constantFrom('\\', '"', '\n', 'n', '{', '}', ',', '=', '\r') }))
const labelName = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,8}$/)
const anyNumber = fc.double().map((number) => (Object.is(number, -0) ? 0 : number))
const anyLabels = fc.dictionary(
  labelName.filter((name) => name !== 'le' && !name.startsWith('__')),
  anyValue,
  { noNullPrototype: true },
)
const plain = fc.record({
  name: fc.stringMatching(/^[a-zA-Z_:][a-zA-Z0-9_:]{0,12}$/),
  help: anyValue,
  type: fc.constantFrom('counter' as const, 'gauge' as const),
  samples: fc.array(fc.record({ labels: anyLabels, value: anyNumber })),
})

/** As it comes over the line. */
const sent = (text: string): string => Buffer.from(text).toString()

describe('the text format', () => {
  test('whatever labels, help and numbers are given are read back', () => {
    const distinct = fc.uniqueArray(plain, { selector: ({ name }) => name })
    fc.assert(
      fc.property(distinct, (families) => {
        const parsed = parseExposition(sent(exposition(families)))
        expect([...parsed]).toEqual(
          families.map(({ name, help, type, samples }) => [
            name,
            { help, type, samples: samples.map((sample) => ({ name, ...sample })) },
          ]),
        )
      }),
      { numRuns: 1000 },
    )
  })

  test('a histogram has its buckets, one without an end, a sum and a count', () => {
    const buckets = [
      { le: 0.5, count: 1 },
      { le: 1e21, count: 3 },
    ]
    const samples = [{ labels: { namespace: 'a' }, buckets, sum: 7.25, count: 4 }]
    expect(exposition([{ name: 'hold_seconds', help: 'Held.', type: 'histogram', samples }])).toBe(
      [
        '# HELP hold_seconds Held.',
        '# TYPE hold_seconds histogram',
        'hold_seconds_bucket{namespace="a",le="0.5"} 1',
        'hold_seconds_bucket{namespace="a",le="1e+21"} 3',
        'hold_seconds_bucket{namespace="a",le="+Inf"} 4',
        'hold_seconds_sum{namespace="a"} 7.25',
        'hold_seconds_count{namespace="a"} 4',
        '',
      ].join('\n'),
    )
  })

  test('families of one name become one, with one type', () => {
    const family = (namespace: string, value: number): Family => ({
      name: 'held',
      help: 'Held.',
      type: 'gauge',
      samples: [{ labels: { namespace }, value }],
    })
    const other: Family = { name: 'other', help: 'Other.', type: 'gauge', samples: [{ labels: {}, value: 3 }] }
    expect(exposition([family('a', 1), other, family('b', 2)])).toBe(
      '# HELP held Held.\n# TYPE held gauge\nheld{namespace="a"} 1\nheld{namespace="b"} 2\n' +
        '# HELP other Other.\n# TYPE other gauge\nother 3\n',
    )
    const counter: Family = { ...other, name: 'held', type: 'counter' }
    expect(() => exposition([family('a', 1), counter])).toThrow('INVALID: held is both a gauge and a counter.')
  })

  test('numbers that are none have names of their own', () => {
    const samples = [NaN, Infinity, -Infinity].map((value) => ({ labels: {}, value }))
    const text = exposition([{ name: 'a', help: '', type: 'gauge', samples }])
    expect(text.split('\n').slice(2, -1)).toEqual(['a NaN', 'a +Inf', 'a -Inf'])
  })

  test('half a surrogate pair becomes the sign for what cannot be shown', () => {
    const samples = [{ labels: { scope: 'a\ud800b' }, value: 1 }]
    expect(exposition([{ name: 'a', help: '', type: 'gauge', samples }])).toContain('{scope="a\ufffdb"}')
  })

  test('no families are no text', () => expect(exposition([])).toBe(''))
})

describe('what Prometheus would not take is INVALID', () => {
  const gauge = (name: string, labels: object): Family => {
    const samples = [{ labels: labels as Record<string, string>, value: 1 }]
    return { name, help: '', type: 'gauge', samples }
  }

  test.each(['', '1st', 'a-b', 'a b', 'a\n', 'ä', 'lock.acquired'])('a metric called %j', (name) => {
    expect(() => exposition([gauge(name, {})])).toThrow('INVALID: A metric cannot be called')
  })

  test.each(['', '1st', 'a-b', 'a:b', '__name__', 'a\n', 'ä'])('a label called %j', (name) => {
    expect(() => exposition([gauge('a', { [name]: 'x' })])).toThrow('INVALID: A label cannot be called')
  })

  test('a label that is no text, a value that is no number, a histogram with a label "le"', () => {
    expect(() => exposition([gauge('a', { b: 1 })])).toThrow('INVALID: The label "b" must be text')
    const texts = [{ labels: {}, value: '1' as unknown as number }]
    expect(() => exposition([{ name: 'a', help: '', type: 'gauge', samples: texts }])).toThrow(
      'INVALID: A metric must be a number',
    )
    const samples = [{ labels: { le: '1' }, buckets: [], sum: 0, count: 0 }]
    expect(() => exposition([{ name: 'a', help: '', type: 'histogram', samples }])).toThrow('INVALID: A histogram')
  })
})
