/** What DynamoDB, AWS's access control, the network and operators do to locks. */
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import {
  CreateTableCommand,
  DeleteItemCommand,
  DeleteTableCommand,
  GetItemCommand,
  PutItemCommand,
  UpdateTimeToLiveCommand,
  type DynamoDBClient,
} from '@aws-sdk/client-dynamodb'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, KeyPage, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { documentDriver } from '../../src/drivers/document/driver.ts'
import { dynamodb, dynamodbStore, parseDynamodbUrl, type DynamodbOptions } from '../../src/drivers/dynamodb/driver.ts'
import { createLocks, type Lease, type Locks } from '../../src/index.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { ask, claim, claimOf, fenceOf, release, renew, untilAnswered } from '../support/claims.ts'
import { DynamodbProxy, type DynamodbFault, type DynamodbRequest } from '../support/dynamodb-proxy.ts'
import { dynamodbClient, DynamodbServer, freshTable } from '../support/dynamodb-server.ts'
import { eventually } from '../support/eventually.ts'
import { rounds } from '../support/extent.ts'

const server = await DynamodbServer.start()
const direct = dynamodbClient(server.port)
afterAll(async () => {
  direct.destroy()
  await server.stop()
})

function clientAt(port: number, config?: object): DynamoDBClient {
  const client = dynamodbClient(port, config)
  onTestFinished(() => client.destroy())
  return client
}

async function open(client: DynamoDBClient, table: string, options: DynamodbOptions = {}): Promise<LockDriver> {
  const driver = dynamodb(client, { table, createTable: true, ...options })
  onTestFinished(() => driver.close())
  await driver.open()
  return driver
}

/** A driver behind a proxy that has a fault from now on, once the driver is open. */
async function through(
  options: DynamodbOptions = {},
  config?: object,
): Promise<{ readonly proxy: DynamodbProxy; readonly driver: LockDriver; readonly table: string }> {
  const proxy = await DynamodbProxy.start(server)
  const table = freshTable()
  return { proxy, table, driver: await open(clientAt(proxy.port, config), table, options) }
}

async function locksOn(driver: LockDriver, ttl: number): Promise<Locks> {
  const locks = await createLocks({ driver, defaults: { ttl } })
  onTestFinished(() => locks.close())
  return locks
}

/** The fault, for the first so many requests of a command. */
function first(times: number, command: string, fault: DynamodbFault): DynamodbProxy['fault'] {
  let left = times
  return (request) => (request.command === command && left-- > 0 ? fault : undefined)
}

const claimsOf = (count: number): readonly Request[] =>
  Array.from({ length: count }, (_, index) => ({ op: 'claim', claim: claimOf(`key-${index}`) }))

async function itemOf(table: string, key: string): Promise<Record<string, { S?: string; N?: string }>> {
  const { Item } = await direct.send(
    new GetItemCommand({ TableName: table, Key: { k: { S: key } }, ConsistentRead: true }),
  )
  return Item as unknown as Record<string, { S?: string; N?: string }>
}

describe('a put whose reply is lost', () => {
  test('is sent again by the SDK, refused as its own first copy counted, and found to be carried out', async () => {
    const { proxy, driver } = await through()
    const wanted = claimOf('a')
    proxy.fault = first(1, 'PutItem', 'lose reply')
    const fence = fenceOf(await claim(driver, wanted))
    expect(proxy.count('PutItem')).toBe(2)
    proxy.fault = first(1, 'PutItem', 'lose reply')
    expect(await renew(driver, wanted)).toMatchObject({ state: 'held', fence, ttlMs: wanted.ttlMs })
    proxy.fault = first(1, 'PutItem', 'lose reply')
    expect(await release(driver, wanted)).toEqual({ state: 'absent', reason: 'released' })
    expect((await driver.list({})).keys).toEqual([])
  })

  test('and was then overwritten by others is tried again, and counts once', async () => {
    const { proxy, driver, table } = await through()
    const other = await open(direct, table)
    const [wanted, waiting] = [claimOf('a'), claimOf('a')]
    let lost = false
    proxy.fault = ({ command }) => {
      if (command !== 'PutItem' || lost) return undefined
      lost = true
      return 'lose reply'
    }
    const claimed = claim(driver, wanted)
    await eventually(async () => (await other.list({ key: 'a' })).keys.length === 1, 'the first copy')
    expect(await claim(other, waiting)).toMatchObject({ state: 'waiting', ahead: 0 })
    expect(await claimed).toMatchObject({ state: 'held' })
    const [listed] = (await other.list({ key: 'a' })).keys
    expect(listed?.claims.map(({ id }) => id)).toEqual([wanted.id, waiting.id])
  })

  test('and that was not carried out before another was quicker is nobody’s: the next copy is refused, and the claim waits', async () => {
    const { proxy, driver, table } = await through()
    const other = await open(direct, table)
    const [wanted, rival] = [claimOf('a'), claimOf('a')]
    let isFirst = true
    proxy.fault = async ({ command }) => {
      if (command !== 'PutItem' || !isFirst) return undefined
      isFirst = false
      await claim(other, rival)
      return { error: 'InternalServerError', status: 500 }
    }
    expect(await claim(driver, wanted)).toMatchObject({ state: 'waiting' })
    expect(await renew(other, rival)).toMatchObject({ state: 'held' })
  })

  test('and that is not sent again, is unknown, and found when it is asked for', async () => {
    const { proxy, driver } = await through({}, { maxAttempts: 1 })
    const wanted = claimOf('a')
    proxy.fault = first(1, 'PutItem', 'lose reply')
    expect(await claim(driver, wanted)).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    expect(await claim(driver, wanted)).toMatchObject({ state: 'held' })
    const [listed] = (await driver.list({ key: 'a' })).keys
    expect(listed?.claims).toHaveLength(1)
  })
})

describe('reads', () => {
  test('are consistent, also by a client that has another default', async () => {
    const proxy = await DynamodbProxy.start(server)
    const client = clientAt(proxy.port)
    client.middlewareStack.add(
      (next) => (given) => next({ ...given, input: { ConsistentRead: false, ...given.input } }),
      { step: 'initialize' },
    )
    const driver = await open(client, freshTable())
    const [held, waiting] = [claimOf('a', { ttlMs: 5000 }), claimOf('a', { ttlMs: 5000 })]
    await claim(driver, held)
    await claim(driver, waiting)
    await driver.list({})
    await driver.list({ key: 'a' })
    // Those of the poller, too.
    await eventually(() => proxy.count('BatchGetItem') > 5, 'polls')
    const reads = proxy.requests.filter(({ command }) => /Get|Scan|Query/.test(command))
    const isConsistent = ({ command, input }: DynamodbRequest): boolean => {
      const tables = Object.values((input['RequestItems'] ?? {}) as Record<string, { ConsistentRead?: boolean }>)
      if (command === 'BatchGetItem')
        return tables.length === 1 && tables.every(({ ConsistentRead }) => ConsistentRead === true)
      return input['ConsistentRead'] === true
    }
    expect(reads.filter((request) => !isConsistent(request))).toEqual([])
    expect(new Set(reads.map(({ command }) => command))).toEqual(new Set(['BatchGetItem', 'Scan']))
  })

  test('of keys that had no capacity left are asked for again, and only those', async () => {
    const { proxy, driver, table } = await through()
    const unprocessed = (reply: Record<string, unknown>): unknown => ({
      ...reply,
      UnprocessedKeys: { [table]: { Keys: [{ k: { S: 'b' } }], ConsistentRead: true } },
    })
    proxy.fault = first(2, 'BatchGetItem', unprocessed)
    const statuses = await driver.send(['a', 'b', 'c'].map((key) => ({ op: 'claim', claim: claimOf(key) })))
    expect(statuses.map(({ state }) => state)).toEqual(['held', 'held', 'held'])
    const asked = proxy.requests
      .filter(({ command }) => command === 'BatchGetItem')
      .map(({ input }) => input['RequestItems'])
    const again = { [table]: { Keys: [{ k: { S: 'b' } }], ConsistentRead: true } }
    expect(asked.slice(1, 3)).toEqual([again, again])
  })

  test('that have no capacity for long end in time, and say when to try again', async () => {
    const { proxy, driver, table } = await through({ timeout: 300 })
    const nothing = { Responses: { [table]: [] }, UnprocessedKeys: { [table]: { Keys: [{ k: { S: 'a' } }] } } }
    proxy.fault = ({ command }) => (command === 'BatchGetItem' ? () => nothing : undefined)
    await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({ reason: 'busy', retryAfterMs: 1000 })
  })

  test('of one key that has no capacity cost the others of its batch neither their answers nor all of their time', async () => {
    const { proxy, driver, table } = await through({ timeout: 3000 })
    const busy = { k: { S: 'key-7' } }
    proxy.fault = ({ command, input }) => {
      if (command !== 'BatchGetItem' || !JSON.stringify(input).includes('"key-7"')) return undefined
      return (reply) => ({ ...reply, UnprocessedKeys: { [table]: { Keys: [busy], ConsistentRead: true } } })
    }
    const statuses = await driver.send(claimsOf(150))
    expect(statuses.flatMap(({ state }, index) => (state === 'held' ? [] : [index]))).toEqual([7])
    expect(statuses[7]).toMatchObject({ state: 'unknown', error: { reason: 'busy', retryAfterMs: 1000 } })
  })

  test('that fail cost only the hundred keys that they are of', async () => {
    const { proxy, driver } = await through({}, { maxAttempts: 1 })
    proxy.fault = ({ command, input }) =>
      command === 'BatchGetItem' && JSON.stringify(input).includes('"key-7"')
        ? { error: 'InternalServerError', status: 500 }
        : undefined
    const statuses = await driver.send(claimsOf(150))
    const expected = statuses.map((_, index) => (index < 100 ? 'unknown' : 'held'))
    expect(statuses.map(({ state }) => state)).toEqual(expected)
    expect(statuses[0]).toMatchObject({ error: { code: 'UNAVAILABLE', reason: 'dynamodb' } })
  })
})

describe('a listing', () => {
  test('of a table whose items are all idle ends its pages after so many reads, and says where to go on', async () => {
    const { proxy, driver } = await through()
    let last = 0
    proxy.fault = ({ command }) =>
      command === 'Scan' ? () => ({ Items: [], LastEvaluatedKey: { k: { S: `idle-${(last += 1)}` } } }) : undefined
    expect(await driver.list({})).toMatchObject({ keys: [], next: 'idle-10' })
    expect(proxy.count('Scan')).toBe(10)
    await driver.list({ after: 'idle-10' })
    expect(proxy.requests.findLast(({ command }) => command === 'Scan')?.input).toMatchObject({
      ExclusiveStartKey: { k: { S: 'idle-19' } },
    })
  })

  test('ends its page when it has thousands of claims, and shows every key once', async () => {
    const table = freshTable()
    const driver = await open(direct, table)
    const waiter = claimOf('a')
    await claim(driver, claimOf('a'))
    await claim(driver, waiter)
    const { k: _, document, ...rest } = await itemOf(table, 'a')
    const stored = JSON.parse(document?.S ?? '') as { claims: { claim: { id: string } }[] }
    const [holder, second] = stored.claims
    if (holder === undefined || second === undefined) throw new Error('There should be two claims')
    const waiters = Array.from({ length: 700 }, (__, index) => {
      return { ...second, claim: { ...second.claim, id: `w${index}`, runner: undefined } }
    })
    const runner = { id: 'r', incarnation: 'i', host: 'h', pid: 1, client: 'c' }
    const text = JSON.stringify({
      ...stored,
      claims: [holder, ...waiters.map((w) => ({ ...w, claim: { ...w.claim, runner } }))],
    })
    const keys = Array.from({ length: 12 }, (__, index) => `crowded-${index}`)
    for (const key of keys) {
      const Item = { ...rest, k: { S: key }, document: { S: text }, claims: { N: '701' } }
      await direct.send(new PutItemCommand({ TableName: table, Item }))
    }
    const pages: number[] = []
    const seen: string[] = []
    for (let after: string | undefined = ''; after !== undefined;) {
      const page: KeyPage = await driver.list({ prefix: 'crowded', after })
      pages.push(page.keys.reduce((sum, { claims }) => sum + claims.length, 0))
      seen.push(...page.keys.map(({ key }) => key))
      after = page.next
    }
    expect(seen.toSorted()).toEqual(keys.toSorted())
    expect(Math.max(...pages)).toBeLessThan(5000 + 701)
  })
})

describe('a table without capacity', () => {
  test.each(['ProvisionedThroughputExceededException', 'ThrottlingException', 'RequestLimitExceeded'])(
    'is left alone for a while: %s',
    async (error) => {
      const { proxy, driver } = await through({}, { maxAttempts: 1 })
      proxy.fault = ({ command }) => (command === 'PutItem' ? { error } : undefined)
      const status = await claim(driver, claimOf('a'))
      expect(status).toMatchObject({
        state: 'unknown',
        error: { code: 'UNAVAILABLE', reason: 'busy', retryAfterMs: 1000 },
      })
    },
  )

  test('does not cost a holder its lock, if it has some again before the lease ends', async () => {
    const { proxy, driver } = await through()
    const locks = await createLocks({ driver, defaults: { ttl: 20_000, heartbeat: 300 } })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire('a')
    const before = proxy.count('PutItem')
    // The SDK tries four times.
    proxy.fault = first(6, 'BatchGetItem', { error: 'ProvisionedThroughputExceededException' })
    await eventually(async () => proxy.count('PutItem') > before, 'a renewal that came through')
    expect(lease.signal.aborted).toBe(false)
    await lease.release()
  })

  test('for one key lets the others of a batch through', async () => {
    const { proxy, driver } = await through({}, { maxAttempts: 1 })
    proxy.fault = ({ command, input }) => {
      const { k } = (input['Item'] ?? {}) as { k?: { S?: string } }
      return command === 'PutItem' && k?.S === 'key-7' ? { error: 'ThrottlingException' } : undefined
    }
    const keys = Array.from({ length: 150 }, (_, index) => `key-${index}`)
    const statuses = await driver.send(keys.map((key) => ({ op: 'claim', claim: claimOf(key) })))
    expect(statuses.flatMap(({ state }, index) => (state === 'held' ? [] : [index]))).toEqual([7])
    // A read has room for a hundred.
    expect(proxy.count('BatchGetItem')).toBe(2)
  })
})

describe('a URL', () => {
  test('says where the table is and how to wait; what code says comes first', () => {
    const url =
      'dynamodb://Locks?region=eu-west-1&endpoint=http://127.0.0.1:1&waitMin=50&waitMax=2s&readsPerSecond=3&timeout=9s'
    expect(parseDynamodbUrl(url)).toMatchObject({
      place: { region: 'eu-west-1', endpoint: 'http://127.0.0.1:1' },
      options: { table: 'Locks', waitMin: 50, waitMax: 2000, readsPerSecond: 3, timeout: 9000 },
    })
    expect(dynamodbStore(url, { waitMax: '1s' }).polling).toEqual({ minMs: 50, maxMs: 1000, keysPerSecondMax: 3 })
  })

  test.each([
    'dynamodb://',
    'dynamodb://me:s3cret@locks',
    'dynamodb://no/table',
    'dynamodb://ab',
    'dynamodb://locks?endpoint=127.0.0.1:8000',
    'dynamodb://locks?createTable=yes',
    'dynamodb://locks?readsPerSecond=',
    'dynamodb://locks?readsPerSecond=0',
    'dynamodb://locks?waitMax=soon',
    'dynamodb://locks?waitMin=5s&waitMax=1s',
    'dynamodb://locks?endpoint=http://:8000',
    'dynamodb://locks?endpoint=http://me:s3cret@127.0.0.1:8000',
    'dynamodb://locks?endpoint=http://127.0.0.1:123456',
    'dynamodb://locks?region=',
    'dynamodb://locks?region=eu west',
    'dynamodb://locks?region=evil.example%2F',
  ])('that makes no sense is refused: %s', (url) => {
    expect(() => dynamodb(url)).toThrow(/^INVALID/)
    expect(() => dynamodb(url)).not.toThrow(/s3cret/)
  })
})

describe('code that makes no sense is refused before anything is sent:', () => {
  test.each([
    ['no client', undefined],
    ['null', null],
    ['options of a client', { region: 'eu-west-1' }],
    ['a number', 5],
  ])('%s', (_what, source) => {
    expect(() => dynamodb(source as never)).toThrow(/^INVALID.*DynamoDBClient/)
  })

  test.each(['ab', '', 'two words', 'a/b', 'x'.repeat(256), 'locks; rm -rf .', 5, null])('the table %s', (table) => {
    expect(() => dynamodb(direct, { table: table as string })).toThrow(/^INVALID/)
  })

  test('a table may be named by its ARN', () => {
    const table = 'arn:aws:dynamodb:eu-west-1:123456789012:table/locks'
    expect(dynamodb(direct, { table }).name).toBe('dynamodb')
  })
})

describe('the table', () => {
  test('that is missing: the error says how to make it', async () => {
    const driver = dynamodb(clientAt(server.port), { table: 'no-such-table' })
    await expect(driver.open()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'configuration',
      message: expect.stringContaining('aws dynamodb create-table --table-name no-such-table'),
    })
    await driver.close()
  })

  test.each([
    ['another name', [{ AttributeName: 'id', KeyType: 'HASH' }], [{ AttributeName: 'id', AttributeType: 'S' }]],
    ['another type', [{ AttributeName: 'k', KeyType: 'HASH' }], [{ AttributeName: 'k', AttributeType: 'N' }]],
    [
      'a sort key',
      [
        { AttributeName: 'k', KeyType: 'HASH' },
        { AttributeName: 'of', KeyType: 'RANGE' },
      ],
      [
        { AttributeName: 'k', AttributeType: 'S' },
        { AttributeName: 'of', AttributeType: 'S' },
      ],
    ],
  ] as const)('whose key has %s is refused', async (_what, KeySchema, AttributeDefinitions) => {
    const TableName = freshTable()
    await direct.send(
      new CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        KeySchema: [...KeySchema],
        AttributeDefinitions: [...AttributeDefinitions],
      }),
    )
    await expect(open(direct, TableName)).rejects.toMatchObject({
      code: 'INVALID',
      message: expect.stringContaining('"k"'),
    })
  })

  /** Opens a store whose table AWS describes with these fields. */
  async function describedAs(fields: object): Promise<LockDriver> {
    const proxy = await DynamodbProxy.start(server)
    const table = freshTable()
    await open(direct, table)
    proxy.fault = ({ command }) =>
      command === 'DescribeTable' ? (reply) => ({ Table: { ...(reply['Table'] as object), ...fields } }) : undefined
    return open(clientAt(proxy.port), table, { createTable: false })
  }

  test('with replicas in other regions, where the last write wins, is refused', async () => {
    const replicas = { Replicas: [{ RegionName: 'eu-west-1', ReplicaStatus: 'ACTIVE' }] }
    await expect(describedAs(replicas)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    await expect(describedAs({ ...replicas, MultiRegionConsistency: 'EVENTUAL' })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    })
    await expect(describedAs({ GlobalTableVersion: '2017.11.29' })).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    await describedAs({ ...replicas, MultiRegionConsistency: 'STRONG' })
  })

  test('that is not active yet, or no longer, is refused for the moment', async () => {
    await expect(describedAs({ TableStatus: 'DELETING' })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'not-ready',
    })
    await describedAs({ TableStatus: 'UPDATING' })
  })

  test('without a time to live is taken, with a warning that says what to run', async () => {
    const TableName = freshTable()
    await direct.send(
      new CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        KeySchema: [{ AttributeName: 'k', KeyType: 'HASH' }],
        AttributeDefinitions: [{ AttributeName: 'k', AttributeType: 'S' }],
      }),
    )
    const driver = await open(direct, TableName, { createTable: false })
    expect(driver.warnings).toEqual([expect.stringContaining('aws dynamodb update-time-to-live')])
    expect((await open(direct, freshTable())).warnings).toEqual([])
  })

  test('whose time to live goes by another attribute is taken, with a warning that says to end that first', async () => {
    const TableName = freshTable()
    await open(direct, TableName)
    const specification = (AttributeName: string, Enabled: boolean) =>
      direct.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { AttributeName, Enabled } }))
    await specification('removeAt', false)
    await specification('expires', true)
    for (const createTable of [false, true]) {
      const { warnings } = await open(direct, TableName, { createTable })
      expect(warnings).toEqual([expect.stringContaining('Enabled=false,AttributeName=expires')])
      expect(warnings).toEqual([expect.stringContaining('Enabled=true,AttributeName=removeAt')])
    }
  })

  test('may be made by many at once', async () => {
    const table = freshTable()
    const drivers = await Promise.all(Array.from({ length: 5 }, () => open(direct, table)))
    expect(drivers.flatMap(({ warnings = [] }) => warnings)).toEqual([])
    const statuses = await Promise.all(drivers.map((driver) => claim(driver, claimOf('a', { wait: false }))))
    expect(statuses.filter(({ state }) => state === 'held')).toHaveLength(1)
  })

  test('that is deleted under a holder, and made again, costs it its lock; the next fence is higher', async () => {
    const table = freshTable()
    const driver = await open(direct, table)
    const held = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await direct.send(new DeleteTableCommand({ TableName: table }))
    await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
    const other = await open(direct, table)
    expect(await renew(driver, held)).toEqual({ state: 'absent', reason: 'unknown' })
    expect(fenceOf(await claim(other, claimOf('a')))).toBeGreaterThan(fence)
  })

  test('that is deleted is made again by a driver that may make it, and by no other', async () => {
    const table = freshTable()
    const driver = await open(direct, table)
    const other = await open(direct, table, { createTable: false })
    const fence = fenceOf(await claim(driver, claimOf('a')))
    await direct.send(new DeleteTableCommand({ TableName: table }))
    const gone = { code: 'UNAVAILABLE', reason: 'configuration', message: expect.stringContaining('The table is gone') }
    await expect(claim(other, claimOf('a'))).rejects.toMatchObject(gone)
    await expect(claim(other, claimOf('a'))).rejects.toMatchObject(gone)
    await expect(claim(driver, claimOf('a'))).rejects.toMatchObject(gone)
    const again = await eventually(() => claim(other, claimOf('a')).catch(() => undefined), 'The table')
    expect(fenceOf(again)).toBeGreaterThan(fence)
    expect(driver.warnings).toEqual([])
  })
})

async function errorOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
  } catch (error) {
    return error
  }
  throw new Error('There should be an error')
}

describe('AWS says no', () => {
  const token = 'AQoDYXdzEJr-the-session-token'
  const canonical = `The request signature we calculated does not match the signature you provided.\n\nThe Canonical String for this request should have been\n'POST\n/\n\nx-amz-security-token:${token}\n'`

  test.each([
    ['AccessDeniedException', 'User: arn:aws:iam::123456789012:user/me is not authorized', 'dynamodb:DescribeTable'],
    ['UnrecognizedClientException', 'The security token included in the request is invalid.', 'get-caller-identity'],
    ['ExpiredTokenException', 'The security token included in the request is expired', 'Sign in again'],
    ['InvalidSignatureException', canonical, 'get-caller-identity'],
    ['InvalidSignatureException', 'Signature expired: 20200101T000000Z is now earlier than 20261119T000000Z', 'clock'],
    ['InvalidSignatureException', 'Signature not yet current: 20300101T000000Z', 'clock'],
  ])('%s: %s', async (error, message, advice) => {
    const proxy = await DynamodbProxy.start(server)
    proxy.fault = () => ({ error, message })
    const opening = open(clientAt(proxy.port, { maxAttempts: 1 }), freshTable())
    const refused = await errorOf(opening)
    expect(refused).toMatchObject({ code: 'UNAVAILABLE', reason: 'auth', message: expect.stringContaining(advice) })
    const printed = inspect(refused, { depth: 12, showHidden: true })
    expect(printed).not.toContain(token)
    expect(printed).not.toContain('s3cret')
  })

  test('and a holder whose rights are taken away stops in time', async () => {
    const { proxy, driver } = await through()
    const locks = await locksOn(driver, 1500)
    const lease = await locks.acquire('a')
    proxy.fault = () => ({ error: 'AccessDeniedException' })
    await eventually(() => lease.signal.aborted, 'the end of the lease')
    expect(lease.signal.reason).toMatchObject({ code: 'LOST' })
  })

  test.each([
    ['no credentials', { credentials: undefined }, 'auth'],
    ['no region', { region: undefined }, 'configuration'],
  ])('with %s the error says what to do', async (_what, config, reason) => {
    const named = [
      'AWS_REGION',
      'AWS_PROFILE',
      'AWS_ACCESS_KEY_ID',
      'AWS_CONFIG_FILE',
      'AWS_SHARED_CREDENTIALS_FILE',
      'AWS_EC2_METADATA_DISABLED',
    ]
    const before = Object.fromEntries(named.map((name) => [name, process.env[name]]))
    onTestFinished(() => void Object.assign(process.env, before))
    for (const name of named) Reflect.deleteProperty(process.env, name)
    process.env['AWS_CONFIG_FILE'] = process.env['AWS_SHARED_CREDENTIALS_FILE'] = '/nonexistent'
    process.env['AWS_EC2_METADATA_DISABLED'] = 'true'
    const client = clientAt(server.port, config)
    await expect(open(client, freshTable())).rejects.toMatchObject({ code: 'UNAVAILABLE', reason })
  })
})

describe('a server that does not answer', () => {
  test('is waited for no longer than the timeout, and for a renewal a third of the ttl', async () => {
    const { proxy, driver } = await through({ timeout: 20_000 })
    const held = claimOf('a', { ttlMs: 3000 })
    await claim(driver, held)
    proxy.fault = () => 'silence'
    const before = performance.now()
    await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'no-answer' })
    expect(performance.now() - before).toBeLessThan(10_000)
  })

  test('does not hold up close', async () => {
    const { proxy, driver } = await through({ timeout: 60_000 })
    proxy.fault = () => 'silence'
    const claiming = claim(driver, claimOf('a')).catch((error: unknown) => error)
    await eventually(() => proxy.count('BatchGetItem') === 1, 'the request')
    await driver.close()
    await claiming
  })

  test('is asked nothing more after close, also not what waited for its turn', async () => {
    const { proxy, driver } = await through({ timeout: 60_000 })
    proxy.fault = ({ command }) => (command === 'PutItem' ? 'silence' : undefined)
    const requests = Array.from(
      { length: 50 },
      () => ({ op: 'claim', claim: claimOf(`key-${Math.random()}`) }) as const,
    )
    const claiming = driver.send(requests)
    await eventually(() => proxy.count('PutItem') > 0, 'the requests')
    await driver.close()
    expect((await claiming).every(({ state }) => state === 'unknown')).toBe(true)
    expect(proxy.count('PutItem')).toBeLessThan(requests.length)
    await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('is asked nothing by a driver that was closed while it was being opened', async () => {
    const proxy = await DynamodbProxy.start(server)
    const driver = dynamodb(clientAt(proxy.port), { table: freshTable(), createTable: true })
    const opening = driver.open()
    await Promise.all([driver.close(), expect(opening).rejects.toMatchObject({ code: 'CLOSED' })])
    expect(proxy.requests).toEqual([])
  })

  test('is not waited for after close, also by what pauses before it tries again', async () => {
    const { proxy, driver, table } = await through({ timeout: 60_000 })
    const nothing = { Responses: { [table]: [] }, UnprocessedKeys: { [table]: { Keys: [{ k: { S: 'a' } }] } } }
    proxy.fault = ({ command }) => (command === 'BatchGetItem' ? () => nothing : undefined)
    const claiming = claim(driver, claimOf('a')).catch((error: unknown) => error)
    // The pause after this one is of 1.28 s at least.
    await eventually(() => proxy.count('BatchGetItem') === 7 && proxy.underWay === 0, 'some tries')
    await pause(50)
    await driver.close()
    expect(await Promise.race([claiming, pause(500)])).toMatchObject({ code: 'CLOSED' })
  })

  test('that is killed and comes back: locks held meanwhile are held on', async () => {
    const own = await DynamodbServer.start({ isDurable: true })
    onTestFinished(() => own.stop())
    const driver = await open(clientAt(own.port), freshTable())
    const held = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await own.kill()
    await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    await own.start()
    expect(await untilAnswered(() => renew(driver, held))).toMatchObject({ state: 'held', fence })
  })
})

describe('an item', () => {
  test('that is damaged is left alone, and its key alone is refused; a listing leaves it out', async () => {
    const table = freshTable()
    const driver = await open(direct, table)
    const document = JSON.stringify({ version: 1, lastFence: 1, claims: 5, nonce: 'x' })
    for (const [key, item] of Object.entries({
      text: { document: { S: '{' } },
      none: {},
      shape: { document: { S: document } },
      null: { document: { S: 'null' } },
    })) {
      const Item = { k: { S: key }, claims: { N: '1' }, nonce: { S: 'x' }, ...item }
      await direct.send(new PutItemCommand({ TableName: table, Item }))
    }
    const keys = ['a', 'text', 'none', 'shape', 'null', 'b']
    const statuses = await driver.send(keys.map((key) => ({ op: 'claim', claim: claimOf(key) })))
    expect(statuses.map(({ state }) => state)).toEqual(['held', 'unknown', 'unknown', 'unknown', 'unknown', 'held'])
    expect(statuses[1]).toMatchObject({ error: { reason: 'corrupt', key: 'text' } })
    expect((await driver.list({})).keys.map(({ key }) => key).toSorted()).toEqual(['a', 'b'])
    await expect(driver.list({ key: 'shape' })).rejects.toMatchObject({ reason: 'corrupt' })
    expect(await itemOf(table, 'shape')).toMatchObject({ document: { S: document } })
  })

  test('that would be larger than 400 KB is not written: the next in line is refused, those in it stay', async () => {
    const driver = await open(direct, freshTable())
    const runner = { ...claimOf('a').runner, metadata: { text: 'x'.repeat(8000) } }
    await claim(driver, claimOf('a'))
    const waiters = Array.from({ length: 60 }, () => claimOf('a', { runner }))
    const statuses = []
    for (const waiter of waiters) statuses.push(await claim(driver, waiter))
    const refused = statuses.findIndex(({ state }) => state === 'unknown')
    expect(refused).toBeGreaterThan(40)
    expect(statuses[refused]).toMatchObject({ error: { code: 'UNAVAILABLE', reason: 'full', key: 'a' } })
    expect(await renew(driver, waiters[refused - 1] ?? claimOf('none'))).toMatchObject({ state: 'waiting' })
  })

  test('that is as full as it gets lets those in it renew, and costs those who share a batch with the refused nothing', async () => {
    const driver = await open(direct, freshTable())
    const holder = claimOf('a')
    await claim(driver, holder)
    const waiters: Claim[] = []
    // Waiters that take less and less, until there is room for none.
    for (let length = 8000; length >= 1;) {
      const waiter = claimOf('a', { runner: { ...holder.runner, metadata: { text: 'x'.repeat(length) } } })
      const { state } = await claim(driver, waiter)
      if (state === 'waiting') waiters.push(waiter)
      else length = Math.floor(length / 2)
    }
    const batch: readonly Request[] = [
      { op: 'claim', claim: claimOf('a', { runner: { ...holder.runner, metadata: { text: 'x'.repeat(8000) } } }) },
      ...[holder, ...waiters].map(({ key, id, ttlMs }) => ({ op: 'renew', key, id, ttlMs }) as const),
    ]
    // Numbers grow: the count of renewals, and the fence of who is granted the lock.
    for (let round = 1; round <= 11; round += 1) {
      const [refused, ...renewed] = await driver.send(batch)
      expect(refused).toMatchObject({ state: 'unknown', error: { reason: 'full', key: 'a' } })
      expect(new Set(renewed.map(({ state }) => state))).toEqual(new Set(['held', 'waiting']))
    }
    await release(driver, holder)
    expect(await renew(driver, waiters[0] ?? holder)).toMatchObject({ state: 'held' })
  })

  test('of one lock fits into one unit of a write, and taking and releasing it costs two reads and two writes', async () => {
    const { proxy, driver, table } = await through()
    const locks = await locksOn(driver, 30_000)
    const lease = await locks.acquire('orders/42')
    const item = await itemOf(table, lease.key)
    const bytes = Object.entries(item).reduce(
      (sum, [name, value]) => sum + name.length + (value.S ?? value.N ?? '').length,
      0,
    )
    expect(bytes).toBeLessThan(1024)
    await lease.release()
    expect([proxy.count('BatchGetItem'), proxy.count('PutItem')]).toEqual([2, 2])
  })

  test('may be removed long after every moment that it is about, by the clock of AWS and not by that of the client', async () => {
    const day = 86_400
    const aheadMs = 400 * day * 1000
    const proxy = await DynamodbProxy.start(server)
    // The SDK learns AWS's time from its answers, as it needs it for signatures.
    proxy.headers = { date: new Date(Date.now() + aheadMs).toUTCString() }
    const table = freshTable()
    const driver = await open(clientAt(proxy.port), table)
    const held = claimOf('a', { ttlMs: 10 * day * 1000 })
    await claim(driver, held)
    const inDays = async (): Promise<number> => {
      const { removeAt } = await itemOf(table, 'a')
      return (Number(removeAt?.N) - Date.now() / 1000) / day
    }
    expect(await inDays()).toBeCloseTo(400 + 30 + 2 * 10, 1)
    await release(driver, held)
    expect(await inDays()).toBeCloseTo(402, 1)
  })

  test('is kept until the clock has passed its last fence, also one from a clock that was ahead', async () => {
    const table = freshTable()
    const driver = await open(direct, table)
    const held = claimOf('a')
    await claim(driver, held)
    const aheadS = Date.now() / 1000 + 100 * 86_400
    const { key, id, ttlMs } = held
    await ask(driver, { op: 'renew', key, id, ttlMs, fenceFloor: Math.ceil(aheadS * 1_000_000) })
    for (const next of ['held', 'released']) {
      const { removeAt } = await itemOf(table, 'a')
      expect(Number(removeAt?.N), next).toBeGreaterThan(aheadS)
      await release(driver, held)
    }
  })

  test('that was removed leaves no lower fence', async () => {
    const table = freshTable()
    const driver = await open(direct, table)
    const held = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await release(driver, held)
    await direct.send(new DeleteItemCommand({ TableName: table, Key: { k: { S: 'a' } } }))
    expect(fenceOf(await claim(driver, claimOf('a')))).toBeGreaterThan(fence)
  })
})

test('whatever the network does to requests, nobody holds what another holds, and fences only grow', async () => {
  const table = freshTable()
  const names = ['a', 'b']
  const holders = new Map<string, Lease>()
  const fences = new Map<string, number>()
  const faults: string[] = []
  let holds = 0
  const until = performance.now() + rounds(6000, 60_000)
  const network = (): DynamodbFault | undefined => {
    const chance = Math.random()
    if (chance < 0.05) return 'lose reply'
    if (chance < 0.1) return 'twice'
    if (chance < 0.15) return { lateMs: Math.random() * 2000 }
    if (chance < 0.2) return { error: 'ThrottlingException' }
    return chance < 0.22 ? 'silence' : undefined
  }
  const work = async (locks: Locks): Promise<void> => {
    while (performance.now() < until || holds < 20) {
      const name = names[Math.floor(Math.random() * names.length)] ?? 'a'
      const lease = await locks.acquire(name, { wait: '2s' }).catch(() => undefined)
      if (lease === undefined || lease.signal.aborted) continue
      holds += 1
      if (holders.get(name)?.signal.aborted === false) faults.push(`${name} was held when ${lease.fence} was granted`)
      if (lease.fence <= (fences.get(name) ?? 0)) faults.push(`${lease.fence} came after ${fences.get(name)}`)
      fences.set(name, lease.fence)
      holders.set(name, lease)
      await pause(Math.random() * (Math.random() < 0.2 ? 1500 : 50))
      if (holders.get(name) === lease) holders.delete(name)
      await lease.release().catch(() => {})
    }
  }
  const live = async (): Promise<void> => {
    const proxy = await DynamodbProxy.start(server)
    const driver = await open(clientAt(proxy.port, { maxAttempts: 2 }), table, { timeout: 500, waitMin: 20 })
    const locks = await locksOn(driver, 1500)
    proxy.fault = ({ command }) => (command.endsWith('Item') ? network() : undefined)
    await Promise.all([work(locks), work(locks)])
    proxy.fault = () => undefined
  }
  await Promise.all([live(), live(), live()])
  expect(faults).toEqual([])
})

describe('after a crash', () => {
  const ttl = 30_000
  const stepMs = 250

  /** Clients of one table whose time only the test moves, each through a proxy: real requests, and no real waiting. */
  async function world() {
    const time = fakeTime()
    const table = freshTable()
    const proxies: DynamodbProxy[] = []
    const isQuiet = (): boolean => proxies.every(({ underWay }) => underWay === 0)
    /** Until no request is under way, and none follows at once. */
    const quiet = async (): Promise<void> => {
      for (let inRow = 0; inRow < 3; inRow = isQuiet() ? inRow + 1 : 0) await pause(1)
    }
    const client = async (): Promise<{ readonly locks: Locks; readonly crash: () => number }> => {
      const proxy = await DynamodbProxy.start(server)
      proxies.push(proxy)
      const store = dynamodbStore(clientAt(proxy.port), { table, createTable: true })
      const { environment } = time
      const locks = await createLocks({ driver: documentDriver(store, environment), environment, defaults: { ttl } })
      onTestFinished(() => locks.close())
      const crash = (): number => {
        proxy.fault = () => 'silence'
        return environment.now()
      }
      return { locks, crash }
    }
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += stepMs) {
        await time.advance(stepMs)
        await quiet()
      }
    }
    /** How long it takes until the lock is acquired. */
    const acquiredAfter = async (acquiring: Promise<Lease>, withinMs: number): Promise<number> => {
      const from = time.environment.now()
      const acquired: number[] = []
      void acquiring.then(() => acquired.push(time.environment.now()))
      while (acquired.length === 0 && time.environment.now() - from <= withinMs) await pass(stepMs)
      return (acquired[0] ?? Infinity) - from
    }
    return { client, pass, quiet, acquiredAfter }
  }

  test('the waiter in line has the lock within 1.2 ttls', async () => {
    const { client, pass, quiet, acquiredAfter } = await world()
    const [holder, waiter] = [await client(), await client()]
    const lease = await holder.locks.acquire('x')
    const acquiring = waiter.locks.acquire('x')
    await quiet()
    await pass(3 * ttl)
    expect(lease.signal.aborted).toBe(false)
    holder.crash()
    expect(await acquiredAfter(acquiring, 2 * ttl)).toBeLessThanOrEqual(1.2 * ttl)
    expect(lease.signal.aborted).toBe(true)
  })

  test('a newcomer has it within 2.2 ttls, one that comes when the lease has just ended', async () => {
    const { client, pass, acquiredAfter } = await world()
    const holder = await client()
    const lease = await holder.locks.acquire('x')
    await pass(ttl / 2)
    holder.crash()
    await pass(ttl)
    expect(lease.signal.aborted).toBe(true)
    const newcomer = await client()
    expect(await acquiredAfter(newcomer.locks.acquire('x'), 2 * ttl)).toBeLessThanOrEqual(1.2 * ttl)
  })
})
