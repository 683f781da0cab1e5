import { posix } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LeaseholdError } from '../../src/core/errors.ts'
import {
  byteRange,
  covers,
  describeScope,
  inode,
  issue,
  named,
  path,
  scopeOf,
  storeKey,
  toScope,
  type Scope,
} from '../../src/core/contract/scope.ts'

describe('a scope', () => {
  test('has one canonical key', () => {
    expect(named('orders/42').key).toBe('named:orders/42')
    expect(toScope('orders/42')).toEqual(named('orders/42'))
    expect(inode(7).key).toBe('inode:7')
    expect(issue(123).key).toBe('issue:123')
    expect(path('/a//b/../c/').key).toBe('path:/a/c')
    expect(path('/').key).toBe('path:/')
  })

  test('of a path is what Node makes of it, without a slash at its end', () => {
    const part = fc.constantFrom('', '.', '..', 'a', 'b c', '...', 'é')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
        const given = `/${parts.join('/')}`
        const normal = posix.normalize(given)
        expect(path(given).key).toBe(`path:${normal === '/' ? '/' : normal.replace(/\/$/, '')}`)
      }),
    )
  })

  test('of a byte range shares the key of its inode', () => {
    expect(byteRange(7, 0, 4096)).toEqual({ kind: 'byteRange', key: 'inode:7', range: { start: 0, end: 4096 } })
  })

  test.each([
    ['an empty name', () => named('')],
    ['a name over 512 bytes', () => named('é'.repeat(257))],
    ['a name with a control character', () => named('a\nb')],
    ['a name with an escape', () => named('a\u001b[31m')],
    ['a name that reverses the text behind it', () => named('a\u202eb')],
    ['a name that is not Unicode', () => named('a\ud800')],
    ['something that is no text', () => named(5 as unknown as string)],
    ['a relative path', () => path('a/b')],
    ['a reversed range', () => byteRange(7, 10, 5)],
    ['an empty range', () => byteRange(7, 5, 5)],
    ['a negative range', () => byteRange(7, -1, 5)],
    ['an unsafe range', () => byteRange(7, 0, 2 ** 53)],
    ['a fractional inode', () => inode(1.5)],
    ['issue 0', () => issue(0)],
    ['a kind made by hand', () => toScope({ kind: 'named', key: 'kind:a' })],
    ['a path made by hand that is not normal', () => toScope({ kind: 'path', key: 'path:/a/../b' })],
    ['an escape in a key made by hand', () => toScope({ kind: 'named', key: 'named:\u001b[2J' })],
    ['an object of somebody else', () => toScope({} as never)],
  ])('cannot be %s', (_what, make) => {
    expect(make).toThrow(expect.objectContaining({ code: 'INVALID' }))
  })

  test('may be as long as 512 bytes', () => {
    expect(named('é'.repeat(256)).key).toHaveLength(262)
  })

  test('covers itself and, for a range, what lies inside', () => {
    expect(covers(named('a'), named('a'))).toBe(true)
    expect(covers(path('/a'), path('/a/b'))).toBe(false)
    expect(covers(inode(7), byteRange(7, 0, 10))).toBe(true)
    expect(covers(byteRange(7, 0, 10), byteRange(7, 2, 10))).toBe(true)
    expect(covers(byteRange(7, 0, 10), byteRange(7, 2, 11))).toBe(false)
    expect(covers(byteRange(7, 2, 10), byteRange(7, 1, 10))).toBe(false)
    expect(covers(byteRange(7, 0, 10), inode(7))).toBe(false)
  })

  test('is told to people as they wrote it', () => {
    expect(describeScope(named('orders/42'))).toBe('orders/42')
    expect(describeScope(byteRange(7, 0, 4096))).toBe('inode 7 [0, 4096)')
    expect(describeScope(path('/a'))).toBe('path /a')
  })

  test('of any name is INVALID, or comes back out of its key in a store', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const scope = unlessInvalid(() => named(text))
        if (scope === undefined) return
        expect(describeScope(scope)).toBe(text)
        expect(scopeOf({ key: storeKey('default', scope.key) })).toEqual(scope)
      }),
      { numRuns: 5000 },
    )
  })

  test('of any path is INVALID, or has a normal form that is its own', () => {
    const steps = fc.array(fc.oneof(fc.constantFrom('', '.', '..', 'a', ' ', 'é'), anyText), { maxLength: 6 })
    fc.assert(
      fc.property(steps, (parts) => {
        const scope = unlessInvalid(() => path(`/${parts.join('/')}`))
        if (scope === undefined) return
        const normal = scope.key.slice('path:'.length)
        expect(path(normal)).toEqual(scope)
        expect(normal === '/' || !/\/\/|\/$|\/\.{1,2}(\/|$)/.test(normal)).toBe(true)
      }),
      { numRuns: 5000 },
    )
  })
})

const anyText = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }))

function unlessInvalid(make: () => Scope): Scope | undefined {
  try {
    return make()
  } catch (error) {
    if (error instanceof LeaseholdError && error.code === 'INVALID') return undefined
    throw error
  }
}
