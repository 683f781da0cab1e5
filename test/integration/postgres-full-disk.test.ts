import { execFileSync } from 'node:child_process'
import { rmSync, statfsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { giveToPostgres, PostgresServer } from '../support/postgres-server.ts'
import { folderForFile } from '../support/test-folder.ts'

const server = await PostgresServer.start()
const disk = folderForFile('small-disk')
const mounted = mount()
afterAll(async () => {
  await server.destroy()
  if (mounted) execFileSync('umount', ['-l', disk])
})

/** A disk of four megabytes. */
function mount(): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk], { stdio: 'ignore' })
  } catch {
    return false
  }
  giveToPostgres(disk)
  return true
}

/** Takes up all room that is left on the disk, and gives it back when called. */
function fillUp(): () => void {
  const ballast = path.join(disk, 'ballast')
  const { bavail, bsize } = statfsSync(disk)
  writeFileSync(ballast, Buffer.alloc(bavail * bsize))
  return () => rmSync(ballast)
}

/** Claims more and more names until that fails. Gives the error, and the claims that were granted before. */
async function claimUntilFull(driver: LockDriver) {
  const granted = []
  for (let name = 0; name < 5000; name += 1) {
    const wanted = claimOf(`filler-${name}-${'x'.repeat(200)}`, { ttlMs: 600_000 })
    try {
      const status = await claim(driver, wanted)
      expect(status).toMatchObject({ state: 'held' })
      granted.push(wanted)
    } catch (error) {
      return { error, refused: wanted, granted }
    }
  }
  throw new Error('The disk took more than it has room for.')
}

test('a full disk is named as such, loses nothing, and is forgotten once there is room', async ({ skip }) => {
  if (!mounted) skip('mounting a small disk needs root')
  await server.sql(`create tablespace small location '${disk}'`)
  const url = `${server.url}?options=${encodeURIComponent('-c default_tablespace=small')}`
  const driver = postgres(url, { schema: 'full', poolSize: 1 })
  try {
    await driver.open()
    const held = claimOf('held', { ttlMs: 600_000 })
    const { fence } = (await claim(driver, held)) as { fence: number }

    const makeRoom = fillUp()
    const { error, refused, granted } = await claimUntilFull(driver)
    expect(error).toMatchObject({ code: 'UNAVAILABLE', reason: 'full' })
    // What was granted is held, and what was refused has left nothing: reading needs no room.
    const { keys } = await driver.list({ limit: 1000 })
    expect(keys.map(({ key }) => key).toSorted()).toEqual(['held', ...granted.map(({ key }) => key)].toSorted())

    makeRoom()
    expect(await claim(driver, refused)).toMatchObject({ state: 'held' })
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence })
    for (const each of [held, refused, ...granted]) {
      expect(await release(driver, each)).toEqual({ state: 'absent', reason: 'released' })
    }
    expect(await driver.list({})).toMatchObject({ keys: [] })
  } finally {
    await driver.close()
  }
})
