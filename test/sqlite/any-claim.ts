import {
  boolean,
  constantFrom,
  dictionary,
  integer,
  jsonValue,
  oneof,
  record,
  string,
  uuid,
  type Arbitrary,
} from 'fast-check'
import type { Claim } from '../../src/core/contract/driver.ts'

const durationMs = integer({ min: 0, max: 2 ** 40 })
const text = string({ unit: 'grapheme' })

const runner = record(
  {
    id: text,
    incarnation: text,
    host: text,
    pid: integer({ min: 1 }),
    client: text,
    owner: text,
    metadata: dictionary(text, jsonValue()),
  },
  { requiredKeys: ['id', 'incarnation', 'host', 'pid', 'client'] },
)

/** An arbitrary claim: each optional field is present or absent. */
export const anyClaim: Arbitrary<Claim> = record(
  {
    id: uuid(),
    key: text.map((name) => `default/named:${name}`),
    mode: constantFrom('exclusive', 'shared'),
    limit: integer({ min: 1 }),
    range: record({ start: integer({ min: 0 }), end: integer({ min: 1 }) }),
    replaces: uuid(),
    priority: oneof(constantFrom(0), integer({ min: -1000, max: 1000 })),
    wait: boolean(),
    evict: constantFrom('stale', 'lower-priority', 'same-runner', 'all'),
    staleMs: durationMs,
    ttlMs: durationMs,
    graceMs: oneof(constantFrom(0), durationMs),
    maxHoldMs: durationMs,
    detached: boolean(),
    runner,
  },
  { requiredKeys: ['id', 'key', 'mode', 'priority', 'wait', 'ttlMs', 'graceMs', 'runner'] },
).map((claim) => JSON.parse(JSON.stringify(claim)) as Claim)
