import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'

test('the built command starts by itself', () => {
  expect(execFileSync('dist/node/cli.js', ['--version'], { encoding: 'utf8' })).toMatch(/^\d+\.\d+\.\d+\n$/)
})

test('what cannot be printed on a full disk is not taken for printed', () => {
  const full = openSync('/dev/full', 'w')
  onTestFinished(() => closeSync(full))
  const { status, stderr } = spawnSync('dist/node/cli.js', ['--version'], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  })
  expect(stderr).toMatch(/^leasehold: standard output could not be written: ENOSPC.*\n$/)
  expect(status).toBe(74)
})

test('a reader that has seen enough ends a command quietly', () => {
  const { status, stderr } = spawnSync('sh', ['-c', '{ dist/node/cli.js --help; echo $? >&2; } | true'], {
    encoding: 'utf8',
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '0\n' })
})
