import type { Mutants } from './mutant.ts'

const file = (name: string): string => `src/drivers/dynamodb/${name}.ts`
const faults = (title: string): readonly [string] => [`integration/dynamodb-faults > ${title}`]

/** DynamoDB: an item a key, by conditional puts. */
export const dynamodb: Mutants = {
  'DynamoDB: reads are eventually consistent': {
    file: file('store'),
    find: '({ k: { S: key } })), ConsistentRead: true }',
    replace: '({ k: { S: key } })) }',
    foundBy: faults('reads are consistent'),
  },
  'DynamoDB: a listing is eventually consistent': {
    file: file('store'),
    find: '      ConsistentRead: true,\n      Limit: 1000,\n',
    replace: '      Limit: 1000,\n',
    foundBy: faults('reads are consistent'),
  },
  'DynamoDB: a first put has no condition': {
    file: file('store'),
    find: "? { ConditionExpression: 'attribute_not_exists(k)' }",
    replace: '? {}',
    foundBy: ['integration/dynamodb > sends at the same time'],
  },
  'DynamoDB: a put asks whether there is an item, and not which': {
    file: file('store'),
    find: ": { ConditionExpression: 'nonce = :read', ExpressionAttributeValues: { ':read': { S: revision } } }",
    replace: ": { ConditionExpression: 'attribute_exists(k)' }",
    foundBy: ['integration/dynamodb > sends at the same time'],
  },
  'DynamoDB: a put that the SDK has sent twice is thought lost': {
    file: file('store'),
    find: "return wasRepeated(error) ? this.#settled(key, document.nonce, withinMs) : 'conflict'",
    replace: "return 'conflict'",
    foundBy: faults('is sent again by the SDK'),
  },
  'DynamoDB: a put that was refused twice was ours if an item is there': {
    file: file('store'),
    find: "return found?.revision === nonce ? 'swapped' : 'conflict'",
    replace: "return found?.revision !== undefined ? 'swapped' : 'conflict'",
    foundBy: faults('and that was not carried out before another'),
  },
  'DynamoDB: a put whose answer was lost is thought to have failed': {
    file: file('store'),
    find: '      if (!isConflict(error)) return { unknown: dynamodbError(error) }\n',
    replace: "      if (!isConflict(error)) return 'conflict'\n",
    foundBy: faults('and that is not sent again, is unknown'),
  },
  'DynamoDB: a key that had no capacity left is a free lock': {
    file: file('store'),
    find: 'if (wanted === undefined) return { items, unread }',
    replace: 'if (wanted === undefined || unread.length > 0) return { items, unread: [] }',
    foundBy: faults('of keys that had no capacity left'),
  },
  'DynamoDB: an idle item may be removed at once': {
    file: file('store'),
    find: 'if (idle) return from + 2 * dayMs',
    replace: 'if (idle) return from',
    foundBy: faults('may be removed long after'),
  },
  'DynamoDB: an item may be removed once its longest lease could be over': {
    file: file('store'),
    find: 'return from + 2 * longest + 30 * dayMs',
    replace: 'return from + longest',
    foundBy: faults('may be removed long after'),
  },
  'DynamoDB: the clock of the client says when an item may be removed': {
    file: file('store'),
    find: 'const now = Date.now() + (client === undefined ? 0 : clockOffsetMs(client))',
    replace: 'const now = Date.now() + (client === undefined ? 0 : 0)',
    foundBy: faults('may be removed long after'),
  },
  'DynamoDB: an item may be removed before its last fence': {
    file: file('store'),
    find: 'const from = Math.max(now, lastFence / 1000)',
    replace: 'const from = Math.max(now, lastFence / 1e9)',
    foundBy: faults('is kept until the clock has passed its last fence'),
  },
  'DynamoDB: a table of several regions is taken': {
    file: file('table'),
    find: "if (isGlobal && table.MultiRegionConsistency !== 'STRONG') {",
    replace: "if (isGlobal && table.MultiRegionConsistency === 'EVENTUAL') {",
    foundBy: faults('with replicas in other regions'),
  },
  'DynamoDB: a table with another key is taken': {
    file: file('table'),
    find: "if (keys?.length !== 1 || keys[0]?.AttributeName !== 'k' || isText !== true) {",
    replace: "if (keys?.[0]?.AttributeName !== 'k' || isText !== true) {",
    foundBy: faults('the table'),
  },
  'DynamoDB: an item that is damaged is a free lock': {
    file: file('store'),
    find: "const damaged = { version: 1, lastFence: Number.NaN, claims: [null], nonce: '' }",
    replace: "const damaged = { version: 1, lastFence: 0, claims: [], nonce: '' }",
    foundBy: faults('that is damaged is left alone'),
  },
}
