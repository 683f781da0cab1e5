/** JSON Schemas of what travels, for the OpenAPI document. The checks themselves are in `read-requests.ts`. */
import type { Schema } from './call.ts'
import { requestBounds, yearMs } from '../../core/contract/bounds.ts'

const text = (maxLength: number, minLength = 1): Schema => ({ type: 'string', minLength, maxLength })
const whole = (minimum: number, maximum = Number.MAX_SAFE_INTEGER): Schema => ({ type: 'integer', minimum, maximum })
const amount: Schema = { type: 'number', minimum: 0 }
const flag: Schema = { type: 'boolean' }

/** An object with these fields and no others. Those whose names end in '?' may be absent. */
function object(fields: Readonly<Record<string, Schema>>, closed = true): Schema {
  const entries = Object.entries(fields)
  return {
    type: 'object',
    required: entries.map(([name]) => name).filter((name) => !name.endsWith('?')),
    properties: Object.fromEntries(entries.map(([name, schema]) => [name.replace(/\?$/, ''), schema])),
    ...(closed && { additionalProperties: false }),
  }
}

const key = text(requestBounds.keyBytesMax)
const id = text(requestBounds.idBytesMax)
const runnerText = text(requestBounds.runnerTextBytesMax)

const range = object({ start: whole(0), end: whole(1) })

const runner = object({
  id: runnerText,
  incarnation: runnerText,
  host: text(requestBounds.runnerTextBytesMax, 0),
  pid: whole(0),
  client: runnerText,
  'owner?': text(requestBounds.ownerBytesMax, 0),
  'metadata?': { type: 'object' },
})

const claim = object({
  id,
  key,
  mode: { enum: ['exclusive', 'shared'] },
  'limit?': whole(1, requestBounds.permits.most),
  'range?': range,
  'replaces?': id,
  priority: whole(requestBounds.priority.least, requestBounds.priority.most),
  wait: flag,
  'evict?': { enum: ['stale', 'lower-priority', 'same-runner', 'all'] },
  'staleMs?': whole(0, yearMs),
  ttlMs: whole(1, yearMs),
  graceMs: whole(0, yearMs),
  'maxHoldMs?': whole(1, yearMs),
  'detached?': flag,
  runner,
})

const fenceFloor = whole(requestBounds.fenceFloor.least, requestBounds.fenceFloor.most)

const request: Schema = {
  oneOf: [
    object({ op: { const: 'claim' }, claim }),
    object({ op: { const: 'renew' }, key, id, ttlMs: whole(1, yearMs), 'fenceFloor?': fenceFloor, 'detached?': flag }),
    object({ op: { const: 'release' }, key, id }),
    object({ op: { const: 'withdraw' }, key, id }),
    object({ op: { const: 'evict' }, key, fence: whole(0), reason: text(requestBounds.reasonBytesMax, 0) }),
  ],
}

/** What every refusal carries. */
export const errorSchema: Schema = object({
  error: object({
    code: { type: 'string' },
    message: { type: 'string' },
    'reason?': { type: 'string' },
    'retryAfterMs?': amount,
  }),
})

const succession = object({
  how: { enum: ['expired', 'died', 'evicted', 'max-hold'] },
  fence: whole(0),
  runner,
})

const status: Schema = {
  oneOf: [
    object({
      state: { const: 'held' },
      fence: whole(1),
      ttlMs: amount,
      'leaving?': { type: 'string' },
      'after?': succession,
    }),
    object({ state: { const: 'waiting' }, ahead: whole(0), ttlMs: amount, againMs: amount }),
    object({ state: { const: 'absent' }, reason: { type: 'string' }, 'detail?': { type: 'string' } }),
    object({ state: { const: 'unknown' }, error: { $ref: '#/components/schemas/Fault' } }),
  ],
}

const listedClaim = object({
  id: { type: 'string', description: 'Empty unless the caller named it.' },
  state: { enum: ['held', 'waiting'] },
  mode: { enum: ['exclusive', 'shared'] },
  'limit?': whole(1),
  'range?': range,
  priority: { type: 'integer' },
  fence: whole(0),
  ttlMs: amount,
  graceMs: amount,
  'maxHoldMs?': amount,
  'leaving?': { type: 'string' },
  'detached?': flag,
  'converting?': flag,
  enteredAt: { type: 'number' },
  acquiredAt: { type: 'number' },
  lastHeartbeat: { type: 'number' },
  renewalCount: whole(0),
  expiresAt: { type: 'number' },
  runner: { $ref: '#/components/schemas/Runner' },
})

/** Schemas that others refer to by name. */
export const components: Readonly<Record<string, Schema>> = {
  Request: request,
  ClaimStatus: status,
  Runner: runner,
  Fault: (errorSchema['properties'] as { error: Schema }).error,
}

/** The body of `POST /v1/requests`. */
export function requestsSchema(requestsMax: number): Schema {
  return object({ requests: { type: 'array', maxItems: requestsMax, items: { $ref: '#/components/schemas/Request' } } })
}

export const statusesSchema: Schema = object({
  statuses: { type: 'array', items: { $ref: '#/components/schemas/ClaimStatus' } },
})

export const keyPageSchema: Schema = object({
  now: { type: 'number' },
  keys: { type: 'array', items: object({ key: { type: 'string' }, claims: { type: 'array', items: listedClaim } }) },
  'next?': { type: 'string' },
})

export const storeSchema: Schema = object({
  protocol: { const: 1 },
  name: { type: 'string' },
  supports: object(
    {
      shared: flag,
      limit: flag,
      range: flag,
      queue: flag,
      push: flag,
      priority: flag,
      convert: flag,
      evict: { type: 'array', items: { type: 'string' } },
      grace: flag,
      maxHold: flag,
      fence: flag,
      ttlMinMs: amount,
      ttlMaxMs: amount,
      'durationMaxMs?': amount,
      'ttlAndGraceMaxMs?': amount,
      'fenceFloorMax?': whole(0),
    },
    false,
  ),
  'dataAgeMs?': {
    type: ['number', 'null'],
    description: 'For how long the store has kept its claims; null: for ever.',
  },
  limits: object({ bodyBytesMax: whole(1), requestsPerCallMax: whole(1) }),
})
