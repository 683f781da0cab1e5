import { expect, test } from 'vitest'
import { advisoryKey } from '../../src/drivers/postgres-advisory/key.ts'

/** Frozen: whoever changes one of these lets two versions hold the same lock. */
const golden: Readonly<Record<string, string>> = {
  '': '-2039914840885289964',
  a: '-3848465438864589366',
  'default/named:orders/42': '2522283049829532411',
  'default/path:/ä/日本': '6000891405593692766',
  'billing/inode:7': '-6041208971666635733',
}

/** The same for another schema than `leasehold`, whose locks are others. */
const goldenInLocks: Readonly<Record<string, string>> = {
  '': '-6454536535325813570',
  a: '7873291976504138245',
  'default/named:orders/42': '-3511157756017200425',
}

test.each([
  ['leasehold', golden],
  ['locks', goldenInLocks],
])('the 64-bit key of a name in the schema %s never changes', (schema, keys) => {
  expect(Object.fromEntries(Object.keys(keys).map((name) => [name, advisoryKey(name, schema)]))).toEqual(keys)
})
