import { homedir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { defaultFile } from '../../src/core/machine/directories.ts'

test('locks lie in the state directory of the user, by the custom of each system', () => {
  const home = homedir()
  expect(defaultFile({}, 'linux')).toBe(path.join(home, '.local/state/leasehold/locks.sqlite'))
  expect(defaultFile({}, 'darwin')).toBe(path.join(home, 'Library/Application Support/leasehold/locks.sqlite'))
  expect(defaultFile({ LOCALAPPDATA: '/local' }, 'win32')).toBe(path.join('/local', 'leasehold/locks.sqlite'))
})

test('LEASEHOLD_STATE_DIR goes before XDG_STATE_HOME, and a relative XDG_STATE_HOME is ignored', () => {
  const environment = { LEASEHOLD_STATE_DIR: '/mine', XDG_STATE_HOME: '/state' }
  expect(defaultFile(environment, 'linux')).toBe('/mine/locks.sqlite')
  expect(defaultFile({ XDG_STATE_HOME: '/state' }, 'linux')).toBe('/state/leasehold/locks.sqlite')
  expect(defaultFile({ XDG_STATE_HOME: 'state' }, 'linux')).toBe(defaultFile({}, 'linux'))
})
