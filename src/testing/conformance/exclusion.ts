import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** By the store's clock, conflicting claims are never held at once. */
export function exclusion(fact: Fact): void {
  fact('an exclusive claim is held by one alone', [], async (stage) => {
    await stage.hold('one')
    await stage.refused('two')
    await stage.refused('three')
    await stage.standsHeld('one')
  })

  fact('keys do not concern each other', [], async (stage) => {
    await stage.hold('one', { key: 'stage/named:a' })
    await stage.hold('two', { key: 'stage/named:b' })
    await stage.hold('three', { key: 'stage/named:a/b' })
    await stage.refused('four', { key: 'stage/named:a' })
  })

  fact('any printable text can be the name in a key', [], async (stage) => {
    const names = [
      'ä/ö ü',
      'quote \' and " and `',
      'a:b{c}*[d]?',
      '../up',
      '%00 %s $1',
      '日本語🔒',
      'x'.repeat(512),
      'A',
      'a',
    ]
    const keys = names.map((name) => `stage/named:${name}`)
    for (const key of keys) await stage.hold(`first of ${key}`, { key })
    for (const key of keys) await stage.refused(`second of ${key}`, { key })
  })

  fact('shared claims are held together', ['shared'], async (stage) => {
    const wish = { mode: 'shared' } as const
    for (const name of ['one', 'two', 'three', 'four', 'five']) await stage.hold(name, wish)
  })

  fact('a shared claim keeps an exclusive one out, and the other way round', ['shared'], async (stage) => {
    await stage.hold('reader', { mode: 'shared' })
    await stage.refused('writer')
    await stage.release('reader')
    await stage.hold('second writer')
    await stage.refused('second reader', { mode: 'shared' })
  })

  fact('no more share than the limit allows', ['shared', 'limit'], async (stage) => {
    const wish = { mode: 'shared', limit: 3 } as const
    for (const name of ['one', 'two', 'three']) await stage.hold(name, wish)
    await stage.refused('four', wish)
    await stage.release('two')
    await stage.hold('five', wish)
    await stage.refused('six', wish)
  })

  fact('a limit of one is a mutex', ['shared', 'limit'], async (stage) => {
    await stage.hold('one', { mode: 'shared', limit: 1 })
    await stage.refused('two', { mode: 'shared', limit: 1 })
    await stage.refused('three')
  })

  fact('a claim with another limit than the holders is a mismatch', ['shared', 'limit'], async (stage) => {
    await stage.hold('one', { mode: 'shared', limit: 3 })
    const mismatch = { state: 'absent', reason: 'mismatch' }
    expect(await stage.claim('two', { mode: 'shared', limit: 2, wait: false })).toEqual(mismatch)
    expect(await stage.claim('three', { mode: 'shared', wait: false })).toEqual(mismatch)
    await stage.release('one')
    await stage.hold('four', { mode: 'shared', limit: 2 })
  })

  fact('a claim with another limit finds out when its turn comes', ['shared', 'limit', 'queue'], async (stage) => {
    await stage.hold('writer')
    await stage.queue('three permits', { mode: 'shared', limit: 3 })
    await stage.queue('two permits', { mode: 'shared', limit: 2 })
    await stage.release('writer')
    await stage.standsHeld('three permits')
    const status = await stage.renew('two permits')
    expect(status.state).toBe('absent')
    expect(['mismatch', 'unknown']).toContain(status.state === 'absent' && status.reason)
  })

  fact('ranges that overlap exclude each other, by one byte or by all', ['range'], async (stage) => {
    await stage.hold('middle', { range: [100, 200] })
    await stage.refused('last byte', { range: [199, 300] })
    await stage.refused('first byte', { range: [0, 101] })
    await stage.refused('inside', { range: [120, 130] })
    await stage.refused('around', { range: [0, 1000] })
    await stage.refused('equal', { range: [100, 200] })
  })

  fact('ranges are half-open: those that touch do not overlap', ['range'], async (stage) => {
    await stage.hold('middle', { range: [100, 200] })
    await stage.hold('before', { range: [0, 100] })
    await stage.hold('after', { range: [200, 201] })
    await stage.hold('far', { range: [Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER] })
  })

  fact('the whole key overlaps every range', ['range'], async (stage) => {
    await stage.hold('far', { range: [4_000_000_000_000, 4_000_000_000_001] })
    await stage.refused('whole')
    await stage.release('far')
    await stage.hold('whole now')
    await stage.refused('any', { range: [0, 1] })
  })

  fact('shared ranges overlap in peace, exclusive ones beside them', ['range', 'shared'], async (stage) => {
    await stage.hold('reader', { mode: 'shared', range: [0, 100] })
    await stage.hold('other reader', { mode: 'shared', range: [50, 150] })
    await stage.refused('writer', { range: [99, 100] })
    await stage.refused('other writer', { range: [140, 160] })
    await stage.hold('writer beyond', { range: [150, 160] })
    await stage.refused('whole reader', { mode: 'shared' })
  })

  fact('a limit counts only those whose ranges overlap', ['range', 'shared', 'limit'], async (stage) => {
    const permit = { mode: 'shared', limit: 2 } as const
    await stage.hold('one', { ...permit, range: [0, 10] })
    await stage.hold('two', { ...permit, range: [0, 10] })
    await stage.refused('three', { ...permit, range: [9, 11] })
    await stage.hold('four', { ...permit, range: [10, 20] })
  })
}
