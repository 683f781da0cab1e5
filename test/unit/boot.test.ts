import { expect, test } from 'vitest'
import { bootIdentity, guessedBoot, guessedClock, linuxBoot, parseOffset } from '../../src/core/machine/boot.ts'
import { hasProcessEnded, pidNamespaceOf, newStamp, stampText, parseStamp } from '../../src/core/machine/liveness.ts'

const bootId = '0b0e8a3c-1f6e-4a7e-9d1c-2f5a6c7d8e9f\n'

/** As in /proc/self/timens_offsets. */
const offsets = (monotonic: string, boottime: string) => `monotonic  ${monotonic}\nboottime   ${boottime}\n`

test('the boot id names the boot', () => {
  expect(linuxBoot(bootId, parseOffset(offsets('0         0', '0         0'), 'monotonic'))).toBe(bootId.trim())
  expect(linuxBoot(bootId, parseOffset('', 'monotonic'))).toBe(bootId.trim())
})

test('a container with a clock of its own is another boot', () => {
  const moved = linuxBoot(bootId, parseOffset(offsets('-86400         5', '0         0'), 'monotonic'))
  expect(moved).toBe(`${bootId.trim()}+-86400.5`)
})

test('a container that counts from another boot is in another namespace, whose stamps prove nothing here', () => {
  const offset = parseOffset(offsets('0         0', '-100000         7'), 'boottime')
  const there = newStamp('boot', { namespace: pidNamespaceOf('4026531836', offset), pid: 1, started: 10_000_100 })
  const here = newStamp('boot', { namespace: pidNamespaceOf('4026531836', ''), pid: 2, started: 20 })
  expect(parseStamp(stampText(there))).toEqual(there)
  const gone = { stat: () => undefined, exists: () => false }
  expect(hasProcessEnded(there, here, gone)).toBe(false)
  expect(hasProcessEnded(here, there, gone)).toBe(false)
  expect(hasProcessEnded({ ...here, pid: 3 }, here, gone)).toBe(true)
})

test('a guessed boot stays the same while the machine runs', () => {
  const bootedAt = 1_700_000_040_000
  expect(guessedBoot(bootedAt + 5_000, 5)).toBe(guessedBoot(bootedAt + 900_000, 900.3))
  expect(guessedBoot(bootedAt, 5)).not.toBe(guessedBoot(bootedAt + 600_000, 5))
})

test('without /proc a container with a clock of its own is another boot all the same', () => {
  const [wall, monotonic] = [1_700_000_040_003, 86_400_000.25]
  expect(guessedClock(wall, monotonic)).toBe(guessedClock(wall + 900_000, monotonic + 900_000.4))
  expect(guessedClock(wall, monotonic)).not.toBe(guessedClock(wall, monotonic + 1000))
  expect(guessedClock(wall, monotonic)).toMatch(/^[A-Za-z0-9.+-]+$/)
})

test('this machine has an identity that fits into a file name', () => {
  expect(bootIdentity()).toMatch(/^[A-Za-z0-9.+-]+$/)
  expect(bootIdentity()).toBe(bootIdentity())
  expect(bootIdentity('win32')).toMatch(/^at-\d+$/)
})
