/** DynamoDB beside what people write by hand: a conditional put and a delete. On Amazon's local server: the requests count, not the times. */
import { DeleteItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb'
import { dynamodb } from '../src/drivers/dynamodb/driver.ts'
import { createLocks } from '../src/index.ts'
import { dynamodbClient, DynamodbServer } from '../test/support/dynamodb-server.ts'
import { interleave, percentile, report } from './report.ts'
import { pairsPerSecond } from './support/hundred-locks.ts'

const pairsAlone = 30
const rounds = 9
const roundsBefore = 6
const table = 'bench'

const server = await DynamodbServer.start()
const client = dynamodbClient(server.port)
const locks = await createLocks({ driver: dynamodb(client, { table, createTable: true }) })

/** Capacity that was used, as AWS counts it for tables that are paid by request: 4 KB of a consistent read, 1 KB of a write. */
const used = { reads: 0, writes: 0 }
client.middlewareStack.add(
  (next) => async (given) => {
    const answer = await next({ ...given, input: { ReturnConsumedCapacity: 'TOTAL', ...given.input } })
    const { ConsumedCapacity: consumed } = answer.output as { ConsumedCapacity?: Consumed | readonly Consumed[] }
    const units = [consumed ?? []].flat().reduce((sum, { CapacityUnits = 0 }) => sum + CapacityUnits, 0)
    if ('RequestItems' in given.input) used.reads += units
    else used.writes += units
    return answer
  },
  { step: 'initialize' },
)

interface Consumed {
  readonly CapacityUnits?: number
}

async function leaseholdPair(name: string): Promise<void> {
  const lease = await locks.acquire(name)
  await lease.release()
}

/** A lock without queue or fence, whose expiry goes by the wall clocks of its clients. */
async function barePair(name: string): Promise<void> {
  const now = Date.now()
  await client.send(
    new PutItemCommand({
      TableName: table,
      Item: { k: { S: `bare/${name}` }, owner: { S: name }, expiresAt: { N: String(now + 30_000) } },
      ConditionExpression: 'attribute_not_exists(k) OR expiresAt < :now',
      ExpressionAttributeValues: { ':now': { N: String(now) } },
    }),
  )
  await client.send(
    new DeleteItemCommand({
      TableName: table,
      Key: { k: { S: `bare/${name}` } },
      ConditionExpression: '#owner = :owner',
      ExpressionAttributeNames: { '#owner': 'owner' },
      ExpressionAttributeValues: { ':owner': { S: name } },
    }),
  )
}

async function pairMs(pair: (name: string) => Promise<unknown>): Promise<number> {
  const took: number[] = []
  for (let index = 0; index < pairsAlone; index += 1) {
    const startedAt = performance.now()
    await pair(`orders/${index}`)
    took.push(performance.now() - startedAt)
  }
  return percentile(took, 0.5)
}

const contendersAtOnce = { leasehold: () => pairsPerSecond(leaseholdPair), bare: () => pairsPerSecond(barePair) }
const contendersAlone = { leasehold: () => pairMs(leaseholdPair), bare: () => pairMs(barePair) }
await interleave(roundsBefore, contendersAtOnce)
const together = await interleave(rounds, contendersAtOnce)
const alone = await interleave(rounds, contendersAlone)

async function unitsOf(pair: (name: string) => Promise<unknown>): Promise<{ reads: number; writes: number }> {
  Object.assign(used, { reads: 0, writes: 0 })
  await pair('orders/units')
  return { ...used }
}
const [leaseholdUnits, bareUnits] = [await unitsOf(leaseholdPair), await unitsOf(barePair)]

await locks.close()
client.destroy()
await server.stop()

const tenths = (figure: number): number => Math.round(figure * 10) / 10
const hundredths = (figure: number): number => Math.round(figure * 100) / 100
const peer = { name: 'a conditional put and delete', kind: 'hand-written' } as const
report({
  name: 'dynamodb',
  figures: {
    leaseholdPairsPerSecond: Math.round(together.medians.leasehold),
    barePairsPerSecond: Math.round(together.medians.bare),
    leaseholdPairP50Ms: hundredths(alone.medians.leasehold),
    barePairP50Ms: hundredths(alone.medians.bare),
    leaseholdReadUnits: leaseholdUnits.reads,
    leaseholdWriteUnits: leaseholdUnits.writes,
    bareReadUnits: bareUnits.reads,
    bareWriteUnits: bareUnits.writes,
  },
  bars: {
    speedToBareAtOnce: {
      title: 'DynamoDB, 100 locks at once: pairs a second',
      peer: { ...peer, ours: together.medians.leasehold, theirs: together.medians.bare, unit: 'pairs/s' },
      actual: tenths(together.ratio('leasehold', 'bare')),
      atLeast: 0.7,
    },
    timeToBarePair: {
      title: 'DynamoDB, one lock at a time: p50 of a pair',
      peer: { ...peer, ours: alone.medians.leasehold, theirs: alone.medians.bare, unit: 'ms' },
      actual: hundredths(alone.ratio('leasehold', 'bare')),
      atMost: 2.2,
    },
    writeUnitsToBarePair: {
      title: 'DynamoDB, one lock: units of writes, of which each costs five reads',
      peer: { ...peer, ours: leaseholdUnits.writes, theirs: bareUnits.writes, unit: 'units' },
      actual: tenths(leaseholdUnits.writes / bareUnits.writes),
      atMost: 1,
    },
  },
})
