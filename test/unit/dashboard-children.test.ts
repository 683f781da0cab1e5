import { expect, test } from 'vitest'
import { withDistinctKeys } from '../../src/dashboard/page/keyed-children.js'

test('items that share a key are all shown, and keep their keys while the others stay', () => {
  const keyOf = (item: { readonly name: string }) => item.name
  const items = ['a', 'b', 'a', 'a', 'a 1', 'b'].map((name) => ({ name }))
  const keys = withDistinctKeys(items, keyOf).map(({ key }) => key)
  expect(new Set(keys).size).toBe(items.length)
  expect(withDistinctKeys(items.slice(0, 4), keyOf).map(({ key }) => key)).toEqual(keys.slice(0, 4))
})
