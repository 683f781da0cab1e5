/** What PostgreSQL keeps about a key beside its claims agrees with them, whatever is asked and however a batch ends. */
import { afterAll, expect, test } from 'vitest'
import type { Claim, EvictRule, Request } from '../../src/core/contract/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { claimOf } from '../support/claims.ts'
import { rounds } from '../support/extent.ts'
import { freshSchema, PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

const seeds = Array.from({ length: rounds(6, 200) }, (_, index) => index + 1)

test.each(seeds)('the holders that share a key are as many as its row says, seed %d', async (seed) => {
  const random = seededRandom(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const pick = <Value>(...values: readonly [Value, ...Value[]]): Value => values[below(values.length)] ?? values[0]
  const schema = await clockedSchema()
  const drivers = [0, 1].map(() => postgres(server.url, { schema, poolSize: 2 }))
  const ids = Array.from({ length: 12 }, (_, index) => `id-${index}`)
  const evictions = [undefined, undefined, undefined, 'stale', 'lower-priority', 'same-runner', 'all'] as const

  const claim = (): Claim => {
    const evict: EvictRule | undefined = pick(...evictions)
    const limit = pick(undefined, 2, 3)
    const start = below(4)
    return claimOf(pick('a', 'b', 'c'), {
      id: pick('id-0', ...ids),
      mode: random() < 0.7 ? 'shared' : 'exclusive',
      ...(limit !== undefined && random() < 0.6 && { limit }),
      ...(random() < 0.3 && { range: { start, end: start + 1 + below(3) } }),
      ...(evict !== undefined && { evict, ...(evict === 'stale' && { staleMs: 1 + below(200) }) }),
      ...(random() < 0.25 && { replaces: pick('id-0', ...ids) }),
      ...(random() < 0.1 && { maxHoldMs: 1 + below(600) }),
      priority: pick(0, 0, 1),
      wait: random() < 0.7,
      ttlMs: 100 + below(900),
      graceMs: pick(0, 0, 150),
    })
  }
  const request = (): Request => {
    const on = { key: pick('a', 'b', 'c'), id: pick('id-0', ...ids) }
    const chance = random()
    if (chance < 0.5) return withMode(claim())
    if (chance < 0.65) return { op: 'renew', ...on, ttlMs: 100 + below(900) }
    if (chance < 0.85) return { op: 'release', ...on }
    if (chance < 0.92) return { op: 'withdraw', ...on }
    return { op: 'evict', key: on.key, fence: fences[below(fences.length)] ?? 1, reason: 'because' }
  }
  const fences: number[] = []
  let mostShared = 0

  for (let step = 0; step < 120; step += 1) {
    const batch = Array.from({ length: random() < 0.5 ? 1 : 1 + below(8) }, request)
    // A transaction that is undone at any point undoes what it counted.
    const isBroken = random() < 0.1
    if (isBroken)
      await server.sql(`update ${schema}.keys set last_fence = 9007199254740991 where key = '${pick('a', 'b', 'c')}'`)
    const statuses = await drivers[below(2)]?.send(batch).catch(() => [])
    for (const status of statuses ?? []) if (status.state === 'held') fences.unshift(status.fence)
    fences.length = Math.min(fences.length, 10)
    if (isBroken)
      await server.sql(
        `update ${schema}.keys set last_fence = last_fence - 9000000000000000 where last_fence > 9007199254740000`,
      )
    if (random() < 0.4)
      await server.sql(`update ${schema}.hands set time = time + ${below(400)} * interval '1 millisecond'`)
    const rows = await keyRows(schema)
    expect(rows.filter(isWrong), `step ${step}: ${JSON.stringify(batch)}`).toEqual([])
    mostShared = Math.max(mostShared, ...rows.map(({ shared }) => shared))
  }
  expect(mostShared).toBeGreaterThan(1)
  await Promise.all(drivers.map((driver) => driver.close()))
})

function withMode(claim: Claim): Request {
  if (claim.mode === 'shared') return { op: 'claim', claim }
  const { limit: _limit, ...rest } = claim
  return { op: 'claim', claim: rest }
}

/** The row of a key, and its claims as they are counted one by one. */
interface KeyRow {
  readonly key: string
  readonly said: number | null
  readonly crowded: boolean
  readonly id: string | null
  readonly shared: number
  readonly held: number
  readonly waiting: number
}

function isWrong({ said, crowded, id, shared, held, waiting }: KeyRow): boolean {
  if (!crowded) return held + waiting > 0
  // The holder that stands in the row holds for itself.
  return id === null ? said !== null && said !== shared : held > 0
}

async function keyRows(schema: string): Promise<readonly KeyRow[]> {
  return (await server.sql(`
    select k.key, k.shared_held::integer as said, k.crowded, k.id,
           (count(*) filter (where c.held and not c.exclusive and c.range_start is null))::integer as shared,
           (count(*) filter (where c.held))::integer as held, (count(*) filter (where not c.held))::integer as waiting
      from ${schema}.keys k left join ${schema}.claims c on c.key = k.key group by k.key`)) as unknown as readonly KeyRow[]
}

async function clockedSchema(): Promise<string> {
  const schema = freshSchema('counters')
  const maker = postgres(server.url, { schema, listen: false })
  await maker.open()
  await maker.close()
  await server.sql(`
    create table ${schema}.hands as select date_trunc('milliseconds', now()) as time;
    create or replace function ${schema}.clock() returns timestamptz language sql volatile as
      'select time from ${schema}.hands'`)
  return schema
}
