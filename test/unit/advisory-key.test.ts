import { expect, test } from 'vitest'
import { advisoryKey } from '../../src/drivers/postgres/advisory-key.ts'

/** Frozen: whoever changes one of these lets two versions hold the same lock. */
const golden: Readonly<Record<string, string>> = {
  '': '-2039914840885289964',
  a: '-3848465438864589366',
  'default/named:orders/42': '2522283049829532411',
  'default/path:/ä/日本': '6000891405593692766',
  'billing/inode:7': '-6041208971666635733',
}

test('the 64-bit key of a name never changes', () => {
  expect(Object.fromEntries(Object.keys(golden).map((name) => [name, advisoryKey(name)]))).toEqual(golden)
})
