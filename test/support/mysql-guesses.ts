/** What must hold where a driver changes rows without a reading, as it left them so: on MariaDB and on MySQL. */
import { createPool, type Pool, type ResultSetHeader } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import { mysql, type MysqlOptions, type MysqlSource } from '../../src/drivers/mysql/driver.ts'
import { grantedAt, MysqlStatements, type MysqlDialect } from '../../src/drivers/mysql/statements.ts'
import { ask, claim, claimOf, claiming, fenceOf, release, renew, untilAnswered } from './claims.ts'
import { eventually } from './eventually.ts'
import type { MariadbServer } from './mariadb-server.ts'
import { opened } from './opened.ts'
import { TcpProxy } from './tcp-proxy.ts'

export function guessesHold(server: MariadbServer): void {
  let tables = 0
  const freshTable = (): string => `guessed_${(tables += 1)}`
  const open = (
    table: string,
    source: MysqlSource = server.database,
    options: MysqlOptions = {},
  ): Promise<LockDriver> => opened(mysql(source, { table, ...options }))

  /** One connection, so that what a test does to it meets the next request. */
  function singlePool(): Pool {
    const pool = createPool({ uri: server.database, connectionLimit: 1 })
    onTestFinished(() => pool.end())
    return pool
  }

  const released = { state: 'absent', reason: 'released' }
  const unfit = { code: 'UNAVAILABLE', reason: 'configuration' }

  /** A row that the driver has found as it left it: it then reads it no more. */
  async function made(driver: LockDriver, ...keys: readonly string[]): Promise<void> {
    const claims = keys.map((key) => claimOf(key))
    for (const status of await driver.send(claims.map(claiming))) expect(status.state).toBe('held')
    for (const status of await driver.send(claims.map(({ key, id }) => ({ op: 'release', key, id }))))
      expect(status).toEqual(released)
  }

  async function countOf(name: string): Promise<number> {
    const [row] = await server.query(`show global status like '${name}'`)
    return Number(row?.['Value'])
  }

  async function dialect(): Promise<MysqlDialect> {
    const [row] = await server.query('select version() as version')
    return { isMariadb: /mariadb/i.test(String(row?.['version'])), isGalera: false, hasLogFormat: true }
  }

  /** What became of a claim, whether the call failed or the answer says so. */
  function outcomeOf(driver: LockDriver, wanted: Claim): Promise<unknown> {
    return claim(driver, wanted).then(
      (status) => (status.state === 'unknown' ? status.error : status),
      (error: unknown) => error,
    )
  }

  test('a lock that nobody else uses costs one statement to take, and one to leave', async () => {
    const driver = await open(freshTable())
    await made(driver, 'a', 'b', "it's \\ Ü")
    const [reads, updates, inserts] = [
      await countOf('Com_select'),
      await countOf('Com_update'),
      await countOf('Com_insert'),
    ]
    for (let round = 0; round < 5; round += 1) await made(driver, 'a', 'b', "it's \\ Ü")
    expect(await countOf('Com_update')).toBe(updates + 10)
    expect(await countOf('Com_select')).toBe(reads)
    expect(await countOf('Com_insert')).toBe(inserts)
  })

  test('a claim that was granted so is listed, renewed and released as any other, and its fence is the greatest', async () => {
    const table = freshTable()
    const [driver, other] = [await open(table), await open(table)]
    const first = claimOf('a')
    const before = fenceOf(await claim(driver, first))
    await release(driver, first)
    const wanted = claimOf('a', { mode: 'shared', limit: 3, priority: 2, graceMs: 500, ttlMs: 20_000, maxHoldMs: 9000 })
    const status = await claim(driver, wanted)
    expect(status).toMatchObject({ state: 'held', ttlMs: 9000, leaving: undefined, after: undefined })
    expect(fenceOf(status)).toBeGreaterThan(before)
    expect(await claim(driver, wanted)).toMatchObject({ state: 'held', fence: fenceOf(status) })
    const { keys, now } = await other.list({ key: 'a' })
    const [listed, ...more] = keys[0]?.claims ?? []
    expect(more).toEqual([])
    expect(listed).toMatchObject({
      id: wanted.id,
      mode: 'shared',
      limit: 3,
      priority: 2,
      fence: fenceOf(status),
      renewalCount: 0,
    })
    expect(listed?.acquiredAt).toBe(Math.floor(fenceOf(status) / 1000))
    expect(listed?.acquiredAt).toBeLessThanOrEqual(now)
    expect(listed?.enteredAt).toBe(listed?.acquiredAt)
    expect(listed?.expiresAt).toBe((listed?.acquiredAt ?? 0) + 9000)
    expect(await renew(other, wanted)).toMatchObject({ state: 'held', fence: fenceOf(status) })
    expect(await release(other, wanted)).toEqual(released)
  })

  test('what another client has done since is found: it holds, it waits, it has let go', async () => {
    const table = freshTable()
    const [driver, other] = [await open(table), await open(table)]
    await made(driver, 'a', 'b')
    const [held, mine] = [claimOf('a'), claimOf('a')]
    await claim(other, held)
    const [waiting, granted] = await driver.send([claiming(mine), claiming(claimOf('b'))])
    expect(waiting).toMatchObject({ state: 'waiting', ahead: 0 })
    expect(granted).toMatchObject({ state: 'held' })
    await release(other, held)
    expect(await renew(driver, mine)).toMatchObject({ state: 'held' })
    expect(await release(driver, mine)).toEqual(released)
    // The release finds the one that waits behind it.
    const [second, behind] = [claimOf('a'), claimOf('a')]
    const fence = fenceOf(await claim(driver, second))
    expect(await claim(other, behind)).toMatchObject({ state: 'waiting', ahead: 0 })
    expect(await release(driver, second)).toEqual(released)
    expect(fenceOf(await renew(other, behind))).toBeGreaterThan(fence)
    expect(await release(driver, second)).toEqual({ state: 'absent', reason: 'unknown' })
    expect(await renew(other, behind)).toMatchObject({ state: 'held' })
  })

  test('a lease that may be over is released by the rule, and its end is remembered', async () => {
    let time = Date.now()
    const driver = await open(freshTable(), server.database, { clockForTests: () => time })
    await made(driver, 'a')
    time += 10
    const held = claimOf('a', { ttlMs: 1000 })
    const fence = fenceOf(await claim(driver, held))
    time += 1000
    expect(await release(driver, held)).toEqual({ state: 'absent', reason: 'expired' })
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held', after: { how: 'expired', fence } })
  })

  test('a release that waited for a connection until the lease was over is judged by the rule', async () => {
    let time = Date.now()
    const pool = singlePool()
    const driver = await open(freshTable(), pool, { clockForTests: () => time })
    await made(driver, 'a')
    time += 10
    const held = claimOf('a', { ttlMs: 1000 })
    const fence = fenceOf(await claim(driver, held))
    time += 800
    const connection = await pool.getConnection()
    const answer = release(driver, held)
    time += 200
    connection.release()
    expect(await answer).toEqual({ state: 'absent', reason: 'expired' })
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held', after: { how: 'expired', fence } })
  })

  test('a release that waited for others on the server until the lease was over is judged by the rule', async () => {
    const table = freshTable()
    const [driver, other] = [await open(table), await open(table)]
    await made(driver, 'a')
    const held = claimOf('a', { ttlMs: 1500 })
    const fence = fenceOf(await claim(driver, held))
    const answer = await server.connected(async (connection) => {
      await connection.query('begin')
      await connection.query(`select * from test.${table} for update`)
      const releasing = release(driver, held)
      await eventually(async () => (await other.list({ key: 'a' })).now >= fence / 1000 + 1500, 'the end of the lease')
      await connection.query('rollback')
      return [await releasing]
    })
    expect(answer).toEqual([{ state: 'absent', reason: 'expired' }])
    expect(await claim(other, claimOf('a'))).toMatchObject({ state: 'held', after: { how: 'expired', fence } })
  })

  test('an eviction is told to whoever is next', async () => {
    const driver = await open(freshTable())
    await made(driver, 'a')
    const fence = fenceOf(await claim(driver, claimOf('a')))
    const evicted = await ask(driver, { op: 'evict', key: 'a', fence, reason: 'stuck' })
    expect(evicted).toEqual({ state: 'absent', reason: 'evicted', detail: 'stuck' })
    expect(await claim(driver, claimOf('a'))).toMatchObject({
      state: 'held',
      after: { how: 'evicted', cause: 'operator', fence },
    })
  })

  test('a claim that another has replaced releases nothing, least of all the claim in its place', async () => {
    const driver = await open(freshTable())
    await made(driver, 'a')
    const gone = claimOf('a')
    await claim(driver, gone)
    const holds = claimOf('a', { replaces: gone.id })
    const fence = fenceOf(await claim(driver, holds))
    expect(await release(driver, gone)).toEqual({ state: 'absent', reason: 'unknown' })
    expect(await renew(driver, holds)).toMatchObject({ state: 'held', fence })
  })

  test('a statement changes a row only if that row has the revision that is expected of it, not of another row', async () => {
    const table = freshTable()
    await made(await open(table), 'a', 'b')
    const [first, second, third] = ['1', '2', '3'].map((digit) => digit.repeat(24)) as [string, string, string]
    await server.query(`update test.${table} set revisions = '${second}' where name in ('a', 'b')`)
    const statements = new MysqlStatements('test', table, await dialect())
    const guesses = [
      { name: 'a', expected: first },
      { name: 'b', expected: second },
    ]
    await server.query(statements.release(guesses, { revision: third, until: 8e12, clockForTests: undefined }))
    const rows = await server.query(
      `select cast(name as char) as name, cast(left(revisions, 24) as char) as revision from test.${table} where name in ('a', 'b') order by name`,
    )
    expect(rows).toEqual([
      { name: 'a', revision: second },
      { name: 'b', revision: third },
    ])
  })

  test('a statement that the server delays after it judged a row tells the fence that it wrote', async () => {
    const table = freshTable()
    await made(await open(table), 'a')
    const statements = new MysqlStatements('test', table, await dialect())
    const expected = '1'.repeat(24)
    await server.query(`update test.${table} set revisions = '${expected}' where name = 'a'`)
    const terms = { revision: '2'.repeat(24), since: 0, within: 1e9, keptMs: 1000, clockForTests: undefined }
    const since = Date.now() * 1000 - 60_000_000
    const sql = statements.grant([{ name: 'a', expected, document: '{}' }], { ...terms, since })
    const delayed = sql.replace('`claims` = 1', '`claims` = 1 + 0 * sleep(1.2)')
    expect(delayed).not.toBe(sql)
    const told = await server.connected(async (connection) => {
      const [answer] = await connection.query<ResultSetHeader>(delayed)
      return grantedAt(answer.insertId, since)
    })
    const [row] = await server.query(`select last_fence from test.${table} where name = 'a'`)
    expect(told.clock).toBe(Number(row?.['last_fence']))
    expect(told.lagMs).toBeGreaterThanOrEqual(1000)
  })

  // As MariaDB 12 answers, too, where read_only is a text.
  test.each([
    ['0', 1],
    ['1', 0],
    ["convert('OFF' using utf8mb4)", 1],
    ["convert('ON' using utf8mb4)", 0],
    ["convert('NO_LOCK' using utf8mb4)", 0],
    ["convert('NO_LOCK_NO_ADMIN' using utf8mb4)", 0],
  ])('a server whose read_only is %s takes so many releases without a reading: %i', async (value, count) => {
    const table = freshTable()
    await made(await open(table), 'a')
    const statements = new MysqlStatements('test', table, await dialect())
    const expected = '1'.repeat(24)
    await server.query(`update test.${table} set revisions = '${expected}' where name = 'a'`)
    const sql = statements.release([{ name: 'a', expected }], {
      revision: '2'.repeat(24),
      until: 8e12,
      clockForTests: undefined,
    })
    expect(sql).toContain('@@global.read_only')
    const written = await server.connected(async (connection) => {
      const [answer] = await connection.query<ResultSetHeader>(sql.replaceAll('@@global.read_only', value))
      return answer.affectedRows
    })
    expect(written).toBe(count)
  })

  test('a row that was put back from an older copy, or is gone, is read again', async () => {
    const table = freshTable()
    const [driver, other] = [await open(table), await open(table)]
    await made(driver, 'a')
    const held = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await server.query(`create table test.${table}_copy as select * from test.${table}`)
    await release(driver, held)
    await server.query(`replace into test.${table} select * from test.${table}_copy`)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'waiting' })
    await server.query(`delete from test.${table} where name = 'a'`)
    const next = claimOf('a')
    expect(fenceOf(await claim(driver, next))).toBeGreaterThan(fence)
    expect(await release(other, next)).toEqual(released)
  })

  test('a table that was dropped is made anew', async () => {
    const table = freshTable()
    const driver = await open(table)
    await made(driver, 'a', 'b')
    const held = claimOf('b')
    await claim(driver, held)
    await server.query(`drop table test.${table}`)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    await server.query(`drop table test.${table}`)
    expect(await release(driver, held)).toEqual({ state: 'absent', reason: 'unknown' })
  })

  test('a last fence that is ahead of the clock is still passed', async () => {
    const table = freshTable()
    const driver = await open(table)
    await made(driver, 'a')
    const ahead = 4_000_000_000_000_000
    await server.query(`update test.${table} set last_fence = ${ahead} where name = 'a'`)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held', fence: ahead + 1 })
  })

  test('several requests for one key in a batch are carried out in their order', async () => {
    const driver = await open(freshTable())
    await made(driver, 'a')
    const [first, second] = [claimOf('a'), claimOf('a')]
    const statuses = await driver.send([
      claiming(first),
      { op: 'release', key: 'a', id: first.id },
      claiming(second),
      claiming(claimOf('a')),
    ])
    expect(statuses.map(({ state }) => state)).toEqual(['held', 'absent', 'held', 'waiting'])
  })

  test('a batch of many rows of many ages is carried out in full, by small statements too', async () => {
    const driver = await open(freshTable())
    const keys = Array.from({ length: 150 }, (_, index) => `k${index}`)
    for (const key of keys.slice(0, 20)) await made(driver, key)
    await made(driver, ...keys)
    const claims = keys.map((key, index) => claimOf(key, { ttlMs: 30_000 + index }))
    const granted = await driver.send(claims.map(claiming))
    expect(granted.map((status) => (status.state === 'held' ? status.ttlMs : status))).toEqual(
      claims.map(({ ttlMs }) => ttlMs),
    )
    const { keys: listed } = await driver.list({ limit: 500 })
    const byKey = new Map(listed.map(({ key, claims: held }) => [key, held.map(({ id, fence }) => ({ id, fence }))]))
    for (const [index, { key, id }] of claims.entries())
      expect(byKey.get(key)).toEqual([{ id, fence: fenceOf(granted[index]) }])
    const statuses = await driver.send(claims.map(({ key, id }) => ({ op: 'release', key, id })))
    for (const status of statuses) expect(status).toEqual(released)
  })

  describe('a session that somebody has changed', () => {
    test.each([
      ['with a clock that was fixed long ago', 'set timestamp = 1000000000', 'held'],
      ['with a clock that was fixed ahead', 'set timestamp = unix_timestamp() + 3600', 'held'],
      ['with a clock that was fixed two seconds ahead', 'set timestamp = unix_timestamp(now(6)) + 2', 'held'],
      ['with a clock that was fixed a moment ago', 'set timestamp = unix_timestamp(now(6)) - 0.7', 'held'],
      // What it wrote is disowned, and lives one ttl.
      ['with a clock that was fixed a moment ahead', 'set timestamp = unix_timestamp(now(6)) + 0.7', 'waiting'],
      ['that reads what is not committed', 'set session transaction isolation level read uncommitted', 'held'],
    ])('%s, is given no lock', async (_title, statement, others) => {
      const table = freshTable()
      const pool = singlePool()
      const [driver, other] = [await open(table, pool), await open(table)]
      await made(driver, 'a')
      await pool.query(statement)
      expect(await outcomeOf(driver, claimOf('a'))).toMatchObject(unfit)
      expect(await untilAnswered(() => claim(driver, claimOf('b')))).toMatchObject({ state: 'held' })
      expect(await claim(other, claimOf('a'))).toMatchObject({ state: others })
    })

    test('so that replicas run the statements themselves, is used after a reading only', async () => {
      const pool = singlePool()
      const driver = await open(freshTable(), pool)
      await made(driver, 'a')
      await pool.query("set session binlog_format = 'STATEMENT'")
      const reads = await countOf('Com_select')
      await made(driver, 'a')
      expect(await countOf('Com_select')).toBeGreaterThanOrEqual(reads + 2)
    })

    test.each([
      ['commits by hand', 'set autocommit = 0'],
      ['is in the middle of a transaction', 'begin'],
      ['is in the middle of a transaction that sees what was', 'start transaction with consistent snapshot'],
    ])('so that it %s, has committed what it answers', async (_title, statement) => {
      const table = freshTable()
      const pool = singlePool()
      const [driver, other] = [await open(table, pool), await open(table)]
      await made(driver, 'a', 'b')
      const releasable = claimOf('b')
      expect(await claim(driver, releasable)).toMatchObject({ state: 'held' })
      await pool.query(statement)
      const wanted = claimOf('a')
      const outcome = await outcomeOf(driver, wanted)
      // MySQL tells only with the answer that a transaction is open. The connection is closed then.
      if (outcome instanceof Error) expect(outcome).toMatchObject(unfit)
      else expect(outcome).toMatchObject({ state: 'held' })
      const isHeld = !(outcome instanceof Error)
      expect((await untilAnswered(() => claim(other, claimOf('a')))).state).toBe(isHeld ? 'waiting' : 'held')
      await pool.query(statement)
      const left = await untilAnswered(() => release(driver, releasable))
      expect(left).toMatchObject({ state: 'absent' })
      expect(await claim(other, claimOf('b'))).toMatchObject({ state: 'held' })
    })
  })

  test('a server that takes no writes any more is refused, also if this user may write', async () => {
    const driver = await open(freshTable())
    await made(driver, 'a', 'b')
    const held = claimOf('b')
    await claim(driver, held)
    await server.query('set global read_only = 1')
    try {
      const readOnly = { code: 'UNAVAILABLE', reason: 'read-only' }
      expect(await outcomeOf(driver, claimOf('a'))).toMatchObject(readOnly)
      await expect(release(driver, held)).rejects.toMatchObject(readOnly)
    } finally {
      await server.query('set global read_only = 0')
    }
    expect(await release(driver, held)).toEqual(released)
  })

  test('the reply is lost: the outcome is unknown, the claim lives, and it can be released', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const table = freshTable()
    const driver = await open(table, `mysql://root@127.0.0.1:${proxy.port}/test`, { timeout: 700 })
    const other = await open(table)
    await made(driver, 'a')
    const wanted = claimOf('a')
    proxy.dropReplies = true
    expect(await claim(driver, wanted)).toMatchObject({ state: 'unknown' })
    proxy.dropReplies = false
    expect(await claim(other, claimOf('a'))).toMatchObject({ state: 'waiting' })
    expect(await untilAnswered(() => release(driver, wanted))).toEqual(released)
  })

  test('a claim that reaches the server after its sender gave up is not granted', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const table = freshTable()
    const driver = await open(table, `mysql://root@127.0.0.1:${proxy.port}/test`, { timeout: 500 })
    const other = await open(table)
    await made(driver, 'a')
    await made(driver, 'a')
    const late = claimOf('a')
    const updates = await countOf('Com_update')
    proxy.delayMs = 1000
    expect(await claim(driver, late)).toMatchObject({ state: 'unknown' })
    expect(await release(other, late)).toEqual({ state: 'absent', reason: 'unknown' })
    await eventually(async () => (await countOf('Com_update')) > updates, 'the statement')
    proxy.delayMs = 0
    expect((await other.list({ key: 'a' })).keys).toEqual([])
    expect(await claim(other, claimOf('a'))).toMatchObject({ state: 'held' })
  })

  test('the connection ends with the statement: what it did is found on another', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const table = freshTable()
    const driver = await open(table, `mysql://root@127.0.0.1:${proxy.port}/test`)
    const other = await open(table)
    await made(driver, 'a')
    const wanted = claimOf('a')
    const cut = proxy.cutAfterRequest()
    const [status] = await Promise.all([claim(driver, wanted), cut])
    const { keys } = await other.list({ key: 'a' })
    expect(keys[0]?.claims).toMatchObject([{ id: wanted.id, state: 'held', fence: fenceOf(status) }])
    expect(await release(driver, wanted)).toEqual(released)
    expect((await other.list({ key: 'a' })).keys).toEqual([])
  })

  test('the connection ends with the statement of a release: what was released is told so, also if another has it now', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const table = freshTable()
    const driver = await open(table, `mysql://root@127.0.0.1:${proxy.port}/test`)
    const other = await open(table)
    for (const next of [undefined, claimOf('a')]) {
      await made(driver, 'a')
      await made(driver, 'a')
      const held = claimOf('a')
      expect(await claim(driver, held)).toMatchObject({ state: 'held' })
      const cut = proxy.cutAfterRequest().then(async () => next === undefined || (await claim(other, next)))
      const [status] = await Promise.all([release(driver, held), cut])
      expect(status).toEqual(released)
    }
  })

  test('the connection ends before the statement of a release: it is released by another', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const table = freshTable()
    const driver = await open(table, `mysql://root@127.0.0.1:${proxy.port}/test`)
    await made(driver, 'a')
    const held = claimOf('a')
    await claim(driver, held)
    proxy.cutBeforeRequest()
    expect(await release(driver, held)).toEqual(released)
    expect((await driver.list({ key: 'a' })).keys).toEqual([])
  })

  test('the connection ends with the statement, and the server with it: the outcome is unknown', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const table = freshTable()
    const driver = await open(table, `mysql://root@127.0.0.1:${proxy.port}/test`, { timeout: 700 })
    const other = await open(table)
    await made(driver, 'a')
    const wanted = claimOf('a')
    const cut = proxy.cutAfterRequest().then(() => proxy.refuse())
    const [status] = await Promise.all([claim(driver, wanted), cut])
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'network' } })
    expect(await claim(other, claimOf('a'))).toMatchObject({ state: 'waiting' })
  })
}
