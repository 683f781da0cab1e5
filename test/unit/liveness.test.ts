import { expect, test } from 'vitest'
import {
  hasProcessEnded,
  cachedProcessCheck,
  ownProcess,
  parseStat,
  type ProcessProbe,
  newStamp,
  stampText,
  parseStamp,
  type LivenessStamp,
} from '../../src/core/machine/liveness.ts'

const observer: LivenessStamp = { boot: 'boot-1', namespace: '77', pid: 10, started: 500, serial: '00000000000000aa' }
const other: LivenessStamp = { ...observer, pid: 20, started: 900, serial: '00000000000000bb' }

function stat(state: string, started: number, name = 'node'): string {
  const between = Array.from({ length: 18 }, () => '0').join(' ')
  return `20 (${name}) ${state} ${between} ${started} 0 0\n`
}

function probe(text: string | undefined, exists = true): ProcessProbe {
  return { stat: () => text, exists: () => exists }
}

test('a command name with brackets and spaces does not move the fields', () => {
  expect(parseStat(stat('S', 900, 'a) R (b 1 2'))).toEqual({ state: 'S', started: 900 })
  expect(parseStat('20 (node) S 1 2')).toBeUndefined()
})

test('a process that runs is not gone', () => {
  expect(hasProcessEnded(other, observer, probe(stat('S', 900)))).toBe(false)
})

test('a process that left no trace is gone', () => {
  expect(hasProcessEnded(other, observer, probe(undefined, false))).toBe(true)
})

test('a process that is only hidden from us is not gone', () => {
  expect(hasProcessEnded(other, observer, probe(undefined, true))).toBe(false)
})

test('a pid given to a new process does not keep the old one alive', () => {
  expect(hasProcessEnded(other, observer, probe(stat('R', 901)))).toBe(true)
})

test('a zombie is gone', () => {
  expect(hasProcessEnded(other, observer, probe(stat('Z', 900)))).toBe(true)
})

test('a stamp of another pid namespace proves nothing', () => {
  expect(hasProcessEnded({ ...other, namespace: '78' }, observer, probe(undefined, false))).toBe(false)
  const nowhere = { ...observer, namespace: '' }
  expect(hasProcessEnded({ ...other, namespace: '' }, nowhere, probe(undefined, false))).toBe(false)
})

test('a stamp of another boot proves nothing', () => {
  expect(hasProcessEnded({ ...other, boot: 'boot-2' }, observer, probe(undefined, false))).toBe(false)
})

test('where start times are not known, only the absence of the process counts', () => {
  const plain = { ...other, started: 0 }
  expect(hasProcessEnded(plain, observer, probe(stat('Z', 5), true))).toBe(false)
  expect(hasProcessEnded(plain, observer, probe(undefined, false))).toBe(true)
})

test('this process finds itself alive, and a claim of it carries its start time on Linux', () => {
  const self = newStamp('boot-1', ownProcess())
  const observing = { ...self, pid: self.pid + 1 }
  expect(hasProcessEnded(self, observing)).toBe(false)
  if (process.platform === 'linux') {
    expect(self.started).toBeGreaterThan(0)
    expect(hasProcessEnded({ ...self, started: self.started - 1 }, observing)).toBe(true)
  }
})

test('an owner is read back from its name, and nothing else is taken for one', () => {
  expect(parseStamp(stampText(other))).toEqual(other)
  for (const name of ['', '../../etc/passwd', 'a_b', `${stampText(other)}/x`, 'x/y_1_2_3_00000000000000bb']) {
    expect(parseStamp(name)).toBeUndefined()
  }
})

test('a process that was seen alive just now is only asked whether it exists', () => {
  let looks = 0
  let exists = true
  const isGoneNow = cachedProcessCheck({
    stat() {
      looks += 1
      return exists ? stat('S', 900) : undefined
    },
    exists: () => exists,
  })
  for (let turn = 0; turn < 3; turn += 1) expect(isGoneNow(other, observer)).toBe(false)
  expect(looks).toBeLessThan(3)
  exists = false
  expect(isGoneNow(other, observer)).toBe(true)
  expect(isGoneNow(other, observer)).toBe(true)
})
