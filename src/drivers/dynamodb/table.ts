/** What a table must be like: found out when the store is opened. */
import { LeaseholdError } from '../../core/errors.ts'
import type { CallDynamodb } from './client.ts'
import { isBeingMade, isMissingTable } from './errors.ts'

/** The attribute that DynamoDB's time to live goes by: see `store.ts`. */
export const removalAttribute = 'removeAt'

interface Described {
  readonly Table?: {
    readonly TableStatus?: string
    readonly KeySchema?: readonly { readonly AttributeName?: string; readonly KeyType?: string }[]
    readonly AttributeDefinitions?: readonly { readonly AttributeName?: string; readonly AttributeType?: string }[]
    readonly Replicas?: readonly object[]
    readonly GlobalTableVersion?: string
    readonly MultiRegionConsistency?: string
  }
}

const madeWithinMs = 120_000
const lookEveryMs = 500

/** Refuses a table that would not be safe, makes one if that is wanted, and says what an operator should know. */
export async function openTable(
  call: CallDynamodb,
  name: string,
  mayCreate: boolean,
  pause: (ms: number) => Promise<void>,
): Promise<readonly string[]> {
  const table = (await described(call, name)) ?? (mayCreate ? await made(call, name, pause) : undefined)
  if (table === undefined) throw missing(name)
  refuseUnsafe(name, table)
  return collectsGarbage(call, name, mayCreate)
}

async function described(call: CallDynamodb, name: string): Promise<NonNullable<Described['Table']> | undefined> {
  try {
    const { Table } = (await call('DescribeTable', { TableName: name })) as Described
    return Table ?? {}
  } catch (error) {
    if (isMissingTable(error)) return undefined
    throw error
  }
}

async function made(
  call: CallDynamodb,
  name: string,
  pause: (ms: number) => Promise<void>,
): Promise<Described['Table']> {
  try {
    await call('CreateTable', {
      TableName: name,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: 'k', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'k', KeyType: 'HASH' }],
    })
  } catch (error) {
    if (!isBeingMade(error)) throw error
  }
  const deadline = performance.now() + madeWithinMs
  for (;;) {
    const table = await described(call, name)
    if ((table !== undefined && table.TableStatus !== 'CREATING') || performance.now() > deadline) return table
    await pause(lookEveryMs)
  }
}

function missing(name: string): LeaseholdError {
  const command =
    `aws dynamodb create-table --table-name ${name} --billing-mode PAY_PER_REQUEST ` +
    '--attribute-definitions AttributeName=k,AttributeType=S --key-schema AttributeName=k,KeyType=HASH'
  const text = `There is no table ${JSON.stringify(name)} in this region and account. Pass createTable, or run: ${command}`
  return new LeaseholdError('UNAVAILABLE', text, { reason: 'configuration' })
}

function refuseUnsafe(name: string, table: NonNullable<Described['Table']>): void {
  const { TableStatus: status, KeySchema: keys, AttributeDefinitions: types, Replicas: replicas = [] } = table
  const title = `The table ${JSON.stringify(name)}`
  if (status !== 'ACTIVE' && status !== 'UPDATING') {
    throw new LeaseholdError('UNAVAILABLE', `${title} is ${status}, not active.`, { reason: 'not-ready' })
  }
  const isText = types?.some(({ AttributeName, AttributeType }) => AttributeName === 'k' && AttributeType === 'S')
  if (keys?.length !== 1 || keys[0]?.AttributeName !== 'k' || isText !== true) {
    throw new LeaseholdError(
      'INVALID',
      `${title} has another key than locks need: a partition key "k" of type S, and no sort key. Give locks a table of their own.`,
    )
  }
  const isGlobal = replicas.length > 0 || table.GlobalTableVersion !== undefined
  if (isGlobal && table.MultiRegionConsistency !== 'STRONG') {
    throw new LeaseholdError(
      'UNSUPPORTED',
      `${title} is replicated to other regions, where the last write wins: two could hold a lock. ` +
        'Use a table of one region, or multi-region strong consistency.',
    )
  }
}

interface TimeToLive {
  readonly TimeToLiveDescription?: { readonly TimeToLiveStatus?: string; readonly AttributeName?: string }
}

/** Whether DynamoDB removes what is no longer used. Locks do not need that, so no failure counts. */
async function collectsGarbage(call: CallDynamodb, name: string, mayEnable: boolean): Promise<readonly string[]> {
  try {
    const before = await timeToLive(call, name)
    if (before === removalAttribute) return []
    const specification = { AttributeName: removalAttribute, Enabled: true }
    const input = { TableName: name, TimeToLiveSpecification: specification }
    if (mayEnable && before === undefined) {
      if ((await call('UpdateTimeToLive', input).catch(() => undefined)) !== undefined) return []
      // Another client may have been first.
      if ((await timeToLive(call, name)) === removalAttribute) return []
    }
    return [uncollected(name, before)]
  } catch {
    return []
  }
}

/** The attribute that time to live goes by; undefined: none. */
async function timeToLive(call: CallDynamodb, name: string): Promise<string | undefined> {
  const { TimeToLiveDescription: found } = (await call('DescribeTimeToLive', { TableName: name })) as TimeToLive
  return found?.TimeToLiveStatus?.startsWith('ENABL') === true ? found.AttributeName : undefined
}

function uncollected(name: string, other: string | undefined): string {
  const command = `aws dynamodb update-time-to-live --table-name ${name} --time-to-live-specification`
  const first = other === undefined ? '' : `${command} Enabled=false,AttributeName=${other} and, an hour later, `
  const enable = `${command} Enabled=true,AttributeName=${removalAttribute}`
  return `The table ${JSON.stringify(name)} keeps an item for each name that was ever locked. Run: ${first}${enable}`
}
