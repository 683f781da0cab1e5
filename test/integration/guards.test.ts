import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pauseHolder } from '../guards/pause.ts'
import { Child } from '../support/child.ts'

// Each guard is proven by the thing it is there for: a process that holds a lock, is stopped past its lease (SIGSTOP)
// right after it has looked at the lease, and writes when it goes on. Without the guard its write must do harm, or the
// proof proves nothing.

const folder = mkdtempSync(join(tmpdir(), 'leasehold-guards-'))
const url = `sqlite:${join(folder, 'locks.sqlite')}`
const ends: (() => unknown)[] = []

afterAll(async () => {
  for (const end of ends.toReversed()) await end()
  rmSync(folder, { recursive: true })
})

/** Brings up what a counter needs; gives its place, fresh for each use. */
const places: Record<string, () => Promise<(name: string) => string>> = {
  file: async () => (name) => join(folder, `${name}.txt`),
  sqlite: async () => (name) => join(folder, `${name}.sqlite`),
  async http() {
    const server = new Child('counter-server', [])
    ends.push(() => server.kill())
    const address = await server.line(/http/)
    return () => address
  },
}

describe.each(Object.entries(places))('%s: a holder paused past its lease', (kind, start) => {
  let place: (name: string) => string
  beforeAll(async () => {
    place = await start()
  })

  test('does no harm through a guard: its write is refused', async () => {
    expect(await pauseHolder(kind, place('guarded'), true, url)).toEqual({
      lostUpdates: 0,
      latecomer: 'refused: LOST superseded',
    })
  })

  test('loses an update without one', async () => {
    expect(await pauseHolder(kind, place('unguarded'), false, url)).toEqual({ lostUpdates: 1, latecomer: 'written' })
  })
})
