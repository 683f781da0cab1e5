import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { ClientProcess, end, endProcessesAfterEach, run } from '../sqlite/processes.ts'
import { scratch } from '../sqlite/scratch.ts'
import { eventually } from '../support/eventually.ts'

const { file, driver } = scratch()
endProcessesAfterEach()

test('the lock of a killed process is taken over long before its ttl', async () => {
  const holder = await ClientProcess.start(file())
  const first = await holder.claim(claimOf('a', { ttlMs: 600_000 }))
  const own = await driver({ file: file() })
  const waiting = claimOf('a', { ttlMs: 600_000 })
  const granted = new Promise<unknown>((resolve) => {
    own.listen?.(
      (_key, _id, notification) =>
        void (notification === 'poll' ? renew(own, waiting).then(resolve) : resolve(notification)),
    )
  })
  expect(await claim(own, waiting)).toMatchObject({ state: 'waiting' })

  const killedAt = performance.now()
  await end(holder.child)
  expect(await granted).toMatchObject({
    state: 'held',
    after: { how: 'died', fence: (first as { fence: number }).fence },
  })
  expect(performance.now() - killedAt).toBeLessThan(60_000)
})

test('a process killed right after a hand-over does not hold up the next', async () => {
  const own = await driver({ file: file() })
  const inFront = claimOf('a')
  await claim(own, inFront)
  const middle = await ClientProcess.start(file())
  await middle.claim(claimOf('a'))
  const last = await ClientProcess.start(file())
  const waiting = claimOf('a')
  await last.claim(waiting)
  await release(own, inFront)
  await eventually(() => middle.received.find(({ notification }) => notification !== 'poll'), 'the hand-over')
  await end(middle.child)
  // It never asked about the middle one: it learns of it by looking.
  await eventually(
    () => last.received.find(({ id, notification }) => id === waiting.id && notification === 'poll'),
    'a nudge',
  )
  expect(await last.ask({ op: 'renew', key: 'a', id: waiting.id, ttlMs: 60_000 })).toMatchObject({
    state: 'held',
    after: { how: 'died' },
  })
})

test('a waiter in another process is woken by the release, with its fence', async () => {
  const own = await driver({ file: file() })
  const held = claimOf('a')
  await claim(own, held)
  const other = await ClientProcess.start(file())
  const waiting = claimOf('a')
  expect(await other.claim(waiting)).toMatchObject({ state: 'waiting', ahead: 0 })
  await release(own, held)
  const { notification } = await eventually(() => other.received[0], 'the grant')
  const status = await other.claim(waiting)
  expect(status.state).toBe('held')
  expect(notification).toMatchObject({ state: 'held', fence: (status as { fence: number }).fence })
})

test('a waiter that was killed is passed over', async () => {
  const own = await driver({ file: file() })
  const held = claimOf('a')
  await claim(own, held)
  const doomed = await ClientProcess.start(file())
  await doomed.claim(claimOf('a'))
  const behind = claimOf('a')
  expect(await claim(own, behind)).toMatchObject({ state: 'waiting', ahead: 1 })
  await end(doomed.child)
  await release(own, held)
  expect(await claim(own, behind)).toMatchObject({ state: 'held' })
})

test('claims survive the end of every process', async () => {
  const client = await ClientProcess.start(file())
  const held = claimOf('a', { detached: true })
  const granted = await client.claim(held)
  await end(client.child)
  const own = await driver({ file: file() })
  expect((await own.list({})).keys[0]?.claims[0]?.id).toBe(held.id)
  expect(await renew(own, held)).toMatchObject({ state: 'held', fence: (granted as { fence: number }).fence })
})

test('thirty-two processes at once get no error, and no fence twice', async () => {
  const storms = Array.from({ length: 32 }, () => run('sqlite-storm', [file(), '20']))
  for (const storm of storms) expect(await storm.ended(), storm.errors).toBe(0)
  const fences = storms.flatMap(({ output }) => output.split('\n').filter((line) => line.startsWith('key-')))
  expect(fences.length).toBeGreaterThan(100)
  expect(new Set(fences).size).toBe(fences.length)
  expect((await (await driver({ file: file() })).list({})).keys).toEqual([])
})

test('processes killed in the middle of their transactions leave a sound file and no lock behind', async () => {
  for (let round = 0; round < 15; round += 1) {
    const storms = [run('sqlite-storm', [file()]), run('sqlite-storm', [file()])]
    for (const storm of storms) await storm.ready()
    // Any moment will do; a different one each time is the point.
    await pause(Math.random() * 30)
    for (const storm of storms) await end(storm.child)
    const database = openDatabase(file())
    expect(database.query('pragma integrity_check').get()).toMatchObject({ integrity_check: 'ok' })
    database.close()
    const own = await driver({ file: file() })
    for (const key of ['key-0', 'key-1', 'key-2']) {
      const wanted = claimOf(key, { wait: false })
      expect(await claim(own, wanted)).toMatchObject({ state: 'held' })
      await release(own, wanted)
    }
    await own.close()
  }
})

test('a process in another pid namespace is not taken for dead', async ({ skip }) => {
  const unshare = ['--pid', '--fork', '--mount-proc', '--kill-child']
  try {
    execFileSync('unshare', [...unshare, 'true'], { stdio: 'ignore' })
  } catch {
    skip('unshare needs root and Linux')
  }
  const own = await driver({ file: file() })
  const program = `import('${process.cwd()}/.build/src/drivers/sqlite/driver.js').then(async ({ sqlite }) => {
    const driver = sqlite({ file: process.argv[1] })
    await driver.open()
    const [status] = await driver.send([{ op: 'claim', claim: JSON.parse(process.argv[2]) }])
    console.log(status.state)
  })`
  const inside = execFileSync(
    'unshare',
    [...unshare, process.execPath, '-e', program, file(), JSON.stringify(claimOf('a', { ttlMs: 60_000 }))],
    { encoding: 'utf8' },
  )
  expect(inside.trim()).toBe('held')
  // Its process has ended by now, but from here that cannot be known.
  expect(await claim(own, claimOf('a', { wait: false }))).toMatchObject({ state: 'absent', reason: 'refused' })
})

test('a live process in a time namespace, whose start time reads otherwise there, is not taken for dead', async ({
  skip,
}) => {
  const unshare = ['--time', '--boottime', '100000', '--fork', '--kill-child']
  try {
    execFileSync('unshare', [...unshare, 'true'], { stdio: 'ignore' })
  } catch {
    skip('unshare needs root and Linux 5.6')
  }
  const own = await driver({ file: file() })
  expect(await claim(own, claimOf('here', { ttlMs: 60_000 }))).toMatchObject({ state: 'held' })
  const program = `import('${process.cwd()}/.build/src/drivers/sqlite/driver.js').then(async ({ sqlite }) => {
    const driver = sqlite({ file: process.argv[1] })
    for (const text of process.argv.slice(2)) {
      const [status] = await driver.send([{ op: 'claim', claim: JSON.parse(text) }])
      console.log(status.state)
    }
    process.stdin.resume()
  })`
  const claims = [claimOf('here', { wait: false }), claimOf('there', { ttlMs: 60_000 })].map((each) =>
    JSON.stringify(each),
  )
  const inside = spawn('unshare', [...unshare, process.execPath, '-e', program, file(), ...claims])
  let said = ''
  inside.stdout.on('data', (text: Buffer) => (said += text.toString()))
  try {
    await expect.poll(() => said).toBe('absent\nheld\n')
    // Both are alive. The clock that times leases is the same, so neither waits for longer than the other's ttl.
    expect(await claim(own, claimOf('there', { wait: false }))).toMatchObject({ state: 'absent', reason: 'refused' })
  } finally {
    inside.stdin.end()
    await once(inside, 'exit')
  }
})

test('nothing of a driver keeps its process alive', () => {
  const program = `import('${process.cwd()}/.build/src/drivers/sqlite/driver.js').then(async ({ sqlite }) => {
    const driver = sqlite({ file: process.argv[1] })
    await driver.open()
    driver.listen(() => {})
    for (const text of process.argv.slice(2)) await driver.send([{ op: 'claim', claim: JSON.parse(text) }])
  })`
  const claims = [claimOf('a'), claimOf('a')].map((each) => JSON.stringify(each))
  execFileSync(process.execPath, ['-e', program, file(), ...claims], { timeout: 60_000 })
})

test('a process exits cleanly in the middle of the renewals of its heartbeat thread', async () => {
  const program = `import('${process.cwd()}/.build/src/index.js').then(async ({ connect }) => {
    const defaults = { ttl: 3000, heartbeat: 10 }
    const locks = await connect('sqlite:' + process.argv[1], { heartbeatThread: true, defaults })
    await Promise.all(Array.from({ length: 400 }, (_, number) => locks.acquire('lock-' + number)))
    setTimeout(() => process.exit(7), 50 * Math.random())
  })`
  // Each by itself would abort one time in three if nothing were done.
  for (let round = 0; round < 3; round += 1) {
    const exits = Array.from({ length: 3 }, async (_, child) => {
      const started = spawn(process.execPath, ['-e', program, file(`exit-${round}-${child}.sqlite`)], {
        stdio: 'inherit',
      })
      return (await once(started, 'exit')) as [number | null, string | null]
    })
    for (const exit of await Promise.all(exits)) expect(exit).toEqual([7, null])
  }
})
