import { expect, test } from 'vitest'
import { SlotSet } from '../../src/core/client/slot-set.ts'

function member(name: string): { name: string; setSlot: number } {
  return { name, setSlot: -1 }
}

test('a roster has each member once, until it leaves', () => {
  const roster = new SlotSet<ReturnType<typeof member>>()
  const [one, two, three] = [member('one'), member('two'), member('three')]
  for (const each of [one, two, three, one]) roster.add(each)
  expect(roster.size).toBe(3)
  expect(roster.delete(one)).toBe(true)
  expect(roster.delete(one)).toBe(false)
  expect([...roster].map(({ name }) => name).toSorted()).toEqual(['three', 'two'])
  roster.add(one)
  expect(roster.delete(three)).toBe(true)
  expect([...roster].map(({ name }) => name).toSorted()).toEqual(['one', 'two'])
})

test('members may leave a roster while it is walked', () => {
  const roster = new SlotSet<ReturnType<typeof member>>()
  for (const name of ['one', 'two', 'three']) roster.add(member(name))
  let seen = 0
  for (const each of roster) {
    seen += 1
    roster.delete(each)
  }
  expect([seen, roster.size]).toEqual([3, 0])
})
