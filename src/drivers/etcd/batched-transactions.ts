import type { EtcdClient } from './rpc/client.ts'
import type { Leases } from './leases/leases.ts'
import {
  calls,
  nested,
  txnReply,
  txnRequest,
  type KeyValue,
  type OperationReply,
  type TxnOperation,
  type Transaction,
  type TxnReply,
} from './rpc/messages.ts'
import { BadMessage } from './rpc/protobuf.ts'

/** The pairs that each range of a reading found, in order, and the revision of the store by then. */
export interface Found {
  readonly found: readonly (readonly KeyValue[])[]
  readonly revision: number
}

/** The outcome of one transaction: carried out; not, and what was found instead; or unknown. */
export type SwapOutcome =
  | { readonly succeeded: true; readonly revision: number }
  | ({ readonly succeeded: false } & Found)
  | { readonly fault: unknown }

/** Operations in one transaction, by etcd's default for --max-txn-ops; those of nested transactions count besides. */
const operationsMax = 128
/** Well below the 1.5 MB that etcd accepts in one request. */
const bytesMax = 500_000

/** Many independent transactions in one request: each succeeds or fails by its own conditions. */
export class BatchedTransactions {
  readonly #client: Pick<EtcdClient, 'call'>
  readonly #leases: Pick<Leases, 'confirm'>

  constructor(client: Pick<EtcdClient, 'call'>, leases: Pick<Leases, 'confirm'>) {
    this.#client = client
    this.#leases = leases
  }

  /** The results of readings as of now. All have equally many ranges. Rejects if any was not answered. */
  async read(readings: readonly (readonly TxnOperation[])[], timeoutMs: number): Promise<Found[]> {
    const requests: Promise<Found[]>[] = []
    const perRequest = Math.floor(operationsMax / (readings[0]?.length ?? 1))
    for (let from = 0; from < readings.length; from += perRequest) {
      requests.push(this.#readSome(readings.slice(from, from + perRequest), timeoutMs))
    }
    return (await Promise.all(requests)).flat()
  }

  /** Never rejects. */
  async write(transactions: readonly Transaction[], timeoutMs: number): Promise<SwapOutcome[]> {
    const batches = batched(transactions)
    return (await Promise.all(batches.map((batch) => this.#writeSome(batch, timeoutMs)))).flat()
  }

  /** One transaction, as a whole. */
  async execute(transaction: Transaction, timeoutMs: number): Promise<TxnReply> {
    const reply = await this.#client.call(calls.txn, txnRequest(transaction), timeoutMs)
    const read = checked(txnReply.read(reply.data), transaction)
    this.#leases.confirm(reply, read.header.term)
    return read
  }

  async #readSome(readings: readonly (readonly TxnOperation[])[], timeoutMs: number): Promise<Found[]> {
    const { replies, header } = await this.execute({ compare: [], success: readings.flat() }, timeoutMs)
    let at = 0
    return readings.map(({ length }) => {
      const parts = replies.slice(at, (at += length))
      return { found: parts.map(pairsIn), revision: header.revision }
    })
  }

  async #writeSome(batch: readonly Transaction[], timeoutMs: number): Promise<SwapOutcome[]> {
    const [only] = batch
    try {
      if (only !== undefined && batch.length === 1) {
        const reply = await this.execute(only, timeoutMs)
        return [outcomeOf(reply, reply.header.revision)]
      }
      const { replies, header } = await this.execute({ compare: [], success: batch.map(nested) }, timeoutMs)
      return batch.map((transaction, index) => outcomeOf(checked(replies[index]?.txn, transaction), header.revision))
    } catch (fault) {
      return batch.map(() => ({ fault }))
    }
  }
}

/** The reply, if it answers every operation: a missing answer would look like a missing key. */
function checked(reply: TxnReply | undefined, { compare, success, failure = [] }: Transaction): TxnReply {
  const succeeds = reply?.succeeded === true || compare.length === 0
  if (reply?.replies.length !== (succeeds ? success : failure).length)
    throw new BadMessage('an answer to something else')
  return reply
}

function pairsIn({ range }: OperationReply): readonly KeyValue[] {
  return range?.pairs ?? []
}

function outcomeOf(reply: TxnReply, revision: number): SwapOutcome {
  if (reply.succeeded) return { succeeded: true, revision }
  return { succeeded: false, found: reply.replies.map(pairsIn), revision }
}

/** The transactions in requests as large as etcd accepts. */
function batched(transactions: readonly Transaction[]): Transaction[][] {
  const batches: Transaction[][] = []
  let [size, most] = [0, 0]
  for (const transaction of transactions) {
    const bytes = transaction.success.reduce((sum, operation) => sum + operation.length, 0)
    const operations = Math.max(transaction.compare.length, transaction.success.length)
    const last = batches.at(-1)
    const fits = last !== undefined && last.length + 1 + Math.max(most, operations) <= operationsMax
    if (fits && size + bytes <= bytesMax) {
      last.push(transaction)
      size += bytes
      most = Math.max(most, operations)
    } else {
      batches.push([transaction])
      size = bytes
      most = operations
    }
  }
  return batches
}
