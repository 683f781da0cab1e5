import type { Claim, EvictRule, Range, Request, Runner } from '../../core/contract/driver.ts'
import { requestBounds, type Bounds, metadataFault } from '../../core/contract/bounds.ts'
import { Fields, wrong } from './fields.ts'

const modes = ['exclusive', 'shared'] as const
const evictRules: readonly EvictRule[] = ['stale', 'lower-priority', 'same-runner', 'all']
const ops = ['claim', 'renew', 'release', 'withdraw', 'evict'] as const

const callFields = new Set(['requests'])
const claimFields = new Set<string>([
  'id',
  'key',
  'mode',
  'limit',
  'range',
  'replaces',
  'priority',
  'wait',
  'evict',
  'staleMs',
  'ttlMs',
  'graceMs',
  'maxHoldMs',
  'detached',
  'runner',
] satisfies (keyof Claim)[])
const runnerFields = new Set<string>([
  'id',
  'incarnation',
  'host',
  'pid',
  'client',
  'owner',
  'metadata',
] satisfies (keyof Runner)[])
const rangeFields = new Set<string>(['start', 'end'] satisfies (keyof Range)[])
const fieldsOf: Readonly<Record<Request['op'], ReadonlySet<string>>> = {
  claim: new Set(['op', 'claim']),
  renew: new Set(['op', 'key', 'id', 'ttlMs', 'fenceFloor', 'detached']),
  release: new Set(['op', 'key', 'id']),
  withdraw: new Set(['op', 'key', 'id']),
  evict: new Set(['op', 'key', 'fence', 'reason']),
}

/** The requests of a body, every field looked at. INVALID says which request and which field. */
export function readRequests(body: unknown, requestsMax: number): Request[] {
  const requests = new Fields(body, 'The body', callFields).raw('requests')
  if (!Array.isArray(requests)) throw wrong('requests', 'must be a list')
  if (requests.length > requestsMax)
    throw wrong('requests', `has ${requests.length}; ${requestsMax} are allowed a call`)
  return requests.map((request, index) => readRequest(request, `requests[${index}]`))
}

function readRequest(value: unknown, where: string): Request {
  const op = ops.find((each) => each === (value as { op?: unknown } | null | undefined)?.op)
  if (op === undefined) throw wrong(`${where}.op`, `must be one of ${ops.join(', ')}`)
  const fields = new Fields(value, where, fieldsOf[op])
  switch (op) {
    case 'claim':
      return { op, claim: readClaim(fields.raw('claim'), fields.whereIs('claim')) }
    case 'renew':
      return {
        op,
        ...readPlace(fields),
        ttlMs: fields.number('ttlMs', requestBounds.positive),
        ...optionalNumber(fields, 'fenceFloor', requestBounds.fenceFloor),
        ...(fields.has('detached') && { detached: fields.flag('detached') }),
      }
    case 'release':
    case 'withdraw':
      return { op, ...readPlace(fields) }
    case 'evict':
      return {
        op,
        key: fields.text('key', requestBounds.keyBytesMax),
        fence: fields.number('fence', requestBounds.natural),
        reason: fields.text('reason', requestBounds.reasonBytesMax, 0),
      }
  }
}

function readPlace(fields: Fields): { readonly key: string; readonly id: string } {
  return { key: fields.text('key', requestBounds.keyBytesMax), id: fields.text('id', requestBounds.idBytesMax) }
}

function readClaim(value: unknown, where: string): Claim {
  const fields = new Fields(value, where, claimFields)
  const { idBytesMax, positive, natural, permits, priority } = requestBounds
  return {
    ...readPlace(fields),
    mode: fields.oneOf('mode', modes),
    ...optionalNumber(fields, 'limit', permits),
    ...(fields.has('range') && { range: readRange(fields.raw('range'), fields.whereIs('range')) }),
    ...(fields.has('replaces') && { replaces: fields.text('replaces', idBytesMax) }),
    priority: fields.number('priority', priority),
    wait: fields.flag('wait'),
    ...(fields.has('evict') && { evict: fields.oneOf('evict', evictRules) }),
    ...optionalNumber(fields, 'staleMs', natural),
    ttlMs: fields.number('ttlMs', positive),
    graceMs: fields.number('graceMs', natural),
    ...optionalNumber(fields, 'maxHoldMs', positive),
    ...(fields.has('detached') && { detached: fields.flag('detached') }),
    runner: readRunner(fields.raw('runner'), fields.whereIs('runner')),
  }
}

function readRange(value: unknown, where: string): Range {
  const fields = new Fields(value, where, rangeFields)
  const range = {
    start: fields.number('start', requestBounds.natural),
    end: fields.number('end', requestBounds.positive),
  }
  if (range.start < range.end) return range
  throw wrong(where, 'must end after its start')
}

function readRunner(value: unknown, where: string): Runner {
  const fields = new Fields(value, where, runnerFields)
  const { runnerTextBytesMax, ownerBytesMax, natural } = requestBounds
  return {
    id: fields.text('id', runnerTextBytesMax),
    incarnation: fields.text('incarnation', runnerTextBytesMax),
    host: fields.text('host', runnerTextBytesMax, 0),
    pid: fields.number('pid', natural),
    client: fields.text('client', runnerTextBytesMax),
    ...(fields.has('owner') && { owner: fields.text('owner', ownerBytesMax, 0) }),
    ...(fields.has('metadata') && { metadata: readMetadata(fields.raw('metadata'), fields.whereIs('metadata')) }),
  }
}

function readMetadata(value: unknown, where: string): Readonly<Record<string, unknown>> {
  const fault = metadataFault(value)
  if (fault === undefined) return value as Readonly<Record<string, unknown>>
  throw wrong(where, fault)
}

function optionalNumber<Name extends string>(
  fields: Fields,
  name: Name,
  bounds: Bounds,
): { readonly [Field in Name]?: number } {
  return fields.has(name) ? ({ [name]: fields.number(name, bounds) } as { readonly [Field in Name]?: number }) : {}
}
