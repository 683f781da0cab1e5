/** JSON Schemas of what operators are told, for the OpenAPI document. The types are in `dashboard/documents.ts`. */
import type { RouteSchema, Schema } from '../contract/call.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import { limitMax, states } from './locks.ts'

const text: Schema = { type: 'string' }
const moment: Schema = { type: 'string', format: 'date-time' }
const flag: Schema = { type: 'boolean' }
const count: Schema = { type: 'integer', minimum: 0 }
const amount: Schema = { type: 'number', minimum: 0 }

/** An object. Fields whose names end in '?' may be absent. Fields may be added one day. */
function object(fields: Readonly<Record<string, Schema>>): Schema {
  const entries = Object.entries(fields)
  return {
    type: 'object',
    required: entries.map(([name]) => name).filter((name) => !name.endsWith('?')),
    properties: Object.fromEntries(entries.map(([name, schema]) => [name.replace(/\?$/, ''), schema])),
  }
}

function list(items: Schema): Schema {
  return { type: 'array', items }
}

const runner = object({ id: text, host: text, pid: count, 'metadata?': { type: 'object' } })

const claim = object({
  runner,
  mode: { enum: ['exclusive', 'shared'] },
  'limit?': count,
  'range?': object({ start: count, end: count }),
  priority: { type: 'integer' },
  fence: count,
  enteredAt: moment,
  'acquiredAt?': moment,
  lastHeartbeat: moment,
  renewalCount: count,
  expiresAt: moment,
  ttlMs: amount,
  remainingMs: amount,
  expired: flag,
  'leaving?': text,
  sinceMs: amount,
  lastHeartbeatMs: amount,
})

const place = { namespace: text, scope: text, key: text }
const lock = object({ ...place, holders: list(claim), waiters: list(claim) })

const eviction = object({
  at: moment,
  by: text,
  ...place,
  fence: count,
  'runner?': runner,
  reason: text,
  result: { enum: ['evicted', 'not-held', 'unknown'] },
})

export const grantSchema: RouteSchema = {
  answer: object({ name: text, rights: list(text), store: text, refreshMs: amount }),
}

export const locksSchema: RouteSchema = {
  query: {
    namespace: text,
    prefix: { ...text, description: 'What the name begins with.' },
    name: { ...text, description: 'What is in the name, in capitals or not.' },
    state: { enum: states },
    after: { ...text, description: 'What the page before gave as next.' },
    limit: { type: 'integer', minimum: 1, maximum: limitMax },
  },
  answer: object({ locks: list(lock), 'next?': text }),
}

export const cyclesSchema: RouteSchema = {
  query: { namespace: text },
  answer: object({
    owners: list(object({ id: text, 'owner?': text, runner })),
    waits: list(
      object({
        from: text,
        to: text,
        because: { enum: ['holds', 'ahead'] },
        ...place,
        sinceMs: amount,
        circular: flag,
      }),
    ),
    cycles: list(list(object({ owner: text, key: text, scope: text }))),
    truncated: flag,
  }),
}

export const changesSchema: RouteSchema = { answer: text, answerType: 'text/event-stream' }

export const auditSchema: RouteSchema = { answer: object({ evictions: list(eviction) }) }

export const evictionSchema: RouteSchema = {
  body: {
    ...object({
      key: { ...text, maxLength: requestBounds.keyBytesMax },
      fence: { type: 'integer', minimum: 1 },
      reason: { ...text, minLength: 1, maxLength: requestBounds.reasonBytesMax },
    }),
    additionalProperties: false,
  },
  answer: eviction,
}

export const accessSchema: RouteSchema = { answer: object({ wantsToken: flag }) }
