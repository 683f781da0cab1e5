/** The requests and replies of etcd: only the messages and fields that this driver uses. */
import { bytes, field, message, MessageType, integerField } from './protobuf.ts'

/** The calls, by the names etcd has for them. */
export const calls = {
  range: '/etcdserverpb.KV/Range',
  txn: '/etcdserverpb.KV/Txn',
  grant: '/etcdserverpb.Lease/LeaseGrant',
  keepAlive: '/etcdserverpb.Lease/LeaseKeepAlive',
  revoke: '/etcdserverpb.Lease/LeaseRevoke',
  timeToLive: '/etcdserverpb.Lease/LeaseTimeToLive',
  watch: '/etcdserverpb.Watch/Watch',
  authenticate: '/etcdserverpb.Auth/Authenticate',
  status: '/etcdserverpb.Maintenance/Status',
} as const

// ---- what every reply begins with

/** What the store had come to, and the term of the node that answered. */
interface Header {
  readonly revision: number
  readonly term: number
}

const header = new MessageType<Header>({ revision: field.number(3), term: field.number(4) })

// ---- keys and values

/** A key as it is stored, and the lease it ends with; 0: none. */
export interface KeyValue {
  readonly key: string
  readonly value: Buffer
  readonly modRevision: number
  readonly lease: number
}

const keyValue = new MessageType<KeyValue>({
  key: field.text(1),
  modRevision: field.number(3),
  value: field.bytes(5),
  lease: field.number(6),
})

export interface RangeQuery {
  readonly key: string
  /** Absent: the key alone. */
  readonly end?: string | Buffer
  readonly limit?: number
  readonly keysOnly?: boolean
  /** Reads at this revision. @default the current one */
  readonly revision?: number
}

/** Keys from `key` up to, not including, `end`, in the order of their bytes. */
export function rangeRequest({ key, end, limit = 0, keysOnly = false, revision = 0 }: RangeQuery): Buffer {
  return message(
    bytes(1, key),
    end === undefined ? message() : bytes(2, end),
    integerField(3, limit),
    integerField(4, revision),
    integerField(8, Number(keysOnly)),
  )
}

export interface RangeReply {
  readonly header: Header
  readonly pairs: readonly KeyValue[]
}

export const rangeReply = new MessageType<RangeReply>({
  header: field.message(1, header),
  pairs: field.repeated(2, () => keyValue),
})

// ---- transactions

/** One operation of a transaction, encoded. */
export type TxnOperation = Buffer & { readonly isOperation?: true }
/** One condition of a transaction, encoded. */
export type TxnCompare = Buffer & { readonly isComparison?: true }

export function rangeOperation(query: RangeQuery): TxnOperation {
  return bytes(1, rangeRequest(query))
}

/** A lease of 0 takes the key off whatever lease it is on. */
export function put(key: string, value: Uint8Array | string, lease: number): TxnOperation {
  return bytes(2, message(bytes(1, key), bytes(2, value), integerField(3, lease)))
}

/** Removes one key, or all up to `end`. */
export function remove(key: string, end?: Buffer): TxnOperation {
  return bytes(3, message(bytes(1, key), end === undefined ? message() : bytes(2, end)))
}

export function nested(transaction: Transaction): TxnOperation {
  return bytes(4, txnRequest(transaction))
}

const equal = 0
const greater = 1
const target = { version: 0, mod: 2, lease: 4 } as const

/** That the key was last changed at this revision; 0: that there is none. */
export function unchangedSince(key: string, revision: number): TxnCompare {
  return message(
    integerField(1, equal),
    integerField(2, target.mod),
    bytes(3, key),
    revision === 0 ? zero(6) : integerField(6, revision),
  )
}

export function exists(key: string): TxnCompare {
  return message(integerField(1, greater), integerField(2, target.version), bytes(3, key), zero(4))
}

export function isOnLease(key: string, lease: number): TxnCompare {
  return message(integerField(1, equal), integerField(2, target.lease), bytes(3, key), integerField(8, lease))
}

/** A field with zero, written out: of a `oneof`, one field must be there. */
function zero(number: number): Buffer {
  return Buffer.from([number * 8, 0])
}

export interface Transaction {
  readonly compare: readonly TxnCompare[]
  /** Carried out if all conditions hold. */
  readonly success: readonly TxnOperation[]
  /** Carried out if a condition does not hold. */
  readonly failure?: readonly TxnOperation[]
}

export function txnRequest({ compare, success, failure = [] }: Transaction): Buffer {
  return message(
    ...compare.map((condition) => bytes(1, condition)),
    ...success.map((operation) => bytes(2, operation)),
    ...failure.map((operation) => bytes(3, operation)),
  )
}

/** What one operation brought: what a range found, or what came of a nested transaction. */
export interface OperationReply {
  readonly range?: RangeReply | undefined
  readonly txn?: TxnReply | undefined
}

export interface TxnReply {
  readonly header: Header
  readonly succeeded: boolean
  /** In the order of the operations. */
  readonly replies: readonly OperationReply[]
}

const operationReply = new MessageType<OperationReply>({
  range: field.optional(1, () => rangeReply),
  txn: field.optional(4, () => txnReply),
})

export const txnReply: MessageType<TxnReply> = new MessageType<TxnReply>({
  header: field.message(1, header),
  succeeded: field.flag(2),
  replies: field.repeated(3, () => operationReply),
})

// ---- leases

export function grantRequest(lease: number, seconds: number): Buffer {
  return message(integerField(1, seconds), integerField(2, lease))
}

/** Names a lease, to keep it alive, revoke it or read its ttl. */
export function leaseRequest(lease: number): Buffer {
  return integerField(1, lease)
}

export interface LeaseReply {
  /** What is left of the lease; 0 or less: it is gone. */
  readonly seconds: number
  /** What the lease was granted for; only of `timeToLive`. */
  readonly grantedSeconds: number
}

export const leaseReply = new MessageType<LeaseReply>({ seconds: field.number(3), grantedSeconds: field.number(4) })

// ---- watching

export interface WatchQuery {
  readonly watch: number
  readonly key: string
  readonly end: string | Buffer
  /** The first revision to watch; 0: from now on. */
  readonly from: number
  /** True: no event for puts. */
  readonly removalsOnly: boolean
}

export function watchRequest({ watch, key, end, from, removalsOnly }: WatchQuery): Buffer {
  // Filter 0 leaves out puts.
  const filter = removalsOnly ? zero(5) : message()
  return bytes(1, message(bytes(1, key), bytes(2, end), integerField(3, from), filter, integerField(7, watch)))
}

export function unwatchRequest(watch: number): Buffer {
  return bytes(2, integerField(1, watch))
}

export interface WatchEvent {
  readonly isRemoval: boolean
  readonly pair: KeyValue
}

export interface WatchReply {
  readonly watch: number
  readonly created: boolean
  readonly canceled: boolean
  /** The events before this revision were compacted away; 0: none is missing. */
  readonly compactRevision: number
  readonly events: readonly WatchEvent[]
}

const watchEvent = new MessageType<WatchEvent>({
  // Type 0 is a put, type 1 a removal: there is no other.
  isRemoval: field.flag(1),
  pair: field.message(2, keyValue),
})

export const watchReply = new MessageType<WatchReply>({
  watch: field.number(2),
  created: field.flag(3),
  canceled: field.flag(4),
  compactRevision: field.number(5),
  events: field.repeated(11, () => watchEvent),
})

// ---- signing in

export function authenticateRequest(name: string, password: string): Buffer {
  return message(bytes(1, name), bytes(2, password))
}

export const authenticateReply = new MessageType<{ readonly token: string }>({ token: field.text(2) })

// ---- the server itself

/** The node that was asked. */
export const statusReply = new MessageType<{ readonly version: string }>({ version: field.text(2) })

/** The first version of each series of etcd that does not revoke leases too early: https://github.com/etcd-io/etcd/issues/15247. */
const mended: readonly (readonly [major: number, minor: number, patch: number])[] = [
  [3, 4, 31],
  [3, 5, 13],
]

/** The known fault of leases in a version of etcd, for users; undefined: none. */
export function leaseWarning(version: string): string | undefined {
  const [major, minor, patch] = version.split(/[.+-]/).map(Number)
  if (major === undefined || minor === undefined || patch === undefined || Number.isNaN(major + minor + patch)) {
    return undefined
  }
  const first = mended.find((fixed) => fixed[0] === major && fixed[1] === minor)
  const isOlder = major < 3 || (major === 3 && minor < 4)
  if (first === undefined ? !isOlder : patch >= first[2]) return undefined
  return (
    `etcd ${version} may revoke leases too early after a leader stood still (etcd issue 15247), and two would hold a lock. ` +
    'Update it to 3.4.31, 3.5.13 or later.'
  )
}
