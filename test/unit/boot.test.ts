import { expect, test } from 'vitest'
import { bootIdentity, guessedBoot, linuxBoot } from '../../src/core/machine/boot.ts'

const bootId = '0b0e8a3c-1f6e-4a7e-9d1c-2f5a6c7d8e9f\n'

test('the boot id names the boot', () => {
  expect(linuxBoot(bootId, 'monotonic           0         0\nboottime            0         0\n')).toBe(bootId.trim())
  expect(linuxBoot(bootId, '')).toBe(bootId.trim())
})

test('a container with a clock of its own is another boot', () => {
  const moved = linuxBoot(bootId, 'monotonic      -86400         5\nboottime            0         0\n')
  expect(moved).toBe(`${bootId.trim()}+-86400.5`)
})

test('a guessed boot stays the same while the machine runs', () => {
  const bootedAt = 1_700_000_040_000
  expect(guessedBoot(bootedAt + 5_000, 5)).toBe(guessedBoot(bootedAt + 900_000, 900.3))
  expect(guessedBoot(bootedAt, 5)).not.toBe(guessedBoot(bootedAt + 600_000, 5))
})

test('this machine has an identity that fits into a file name', () => {
  expect(bootIdentity()).toMatch(/^[A-Za-z0-9.+-]+$/)
  expect(bootIdentity()).toBe(bootIdentity())
  expect(bootIdentity('win32')).toMatch(/^at-\d+$/)
})
