import { LeaseholdError } from '../../core/errors.ts'
import { hashTags } from './hash-tags.ts'
import type { Keyspace } from './keyspace.ts'
import type { RedisTransport } from './transport.ts'
import { dataAgeScript, run } from './script.ts'

/**
 * For how many milliseconds a store has kept its data. One server keeps it all, or loses it all; of a cluster's hash tags each
 * may be on another server, and the youngest counts.
 */
export async function readDataAge(transport: RedisTransport, keyspace: Keyspace, withinMs: number): Promise<number> {
  const tags = transport.cluster ? hashTags.keys() : [0]
  const read = (tag: number): Promise<unknown> => run(transport, dataAgeScript, [keyspace.birthOf(tag)], [], withinMs)
  const answers = await Promise.all(Array.from(tags, read))
  const ageMs = Math.min(...answers.map(Number))
  if (ageMs >= 0) return ageMs
  throw new LeaseholdError('UNAVAILABLE', 'Redis did not tell how old its data is.', { reason: 'configuration' })
}
