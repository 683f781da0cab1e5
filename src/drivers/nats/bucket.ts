/** The stream of a KV bucket: made if it is not there, and refused if it would lose locks. */
import { LeaseholdError } from '../../core/errors.ts'
import { apiCode, isNatsRefusal, JetStreamRefusal } from './errors.ts'
import type { JetStreamApi } from './jetstream-api.ts'

/** What of a stream matters to locks. */
export interface StreamConfig {
  readonly max_age?: number
  readonly max_bytes?: number
  readonly max_msgs?: number
  readonly max_msgs_per_subject?: number
  readonly discard?: string
  readonly discard_new_per_subject?: boolean
  readonly retention?: string
  readonly storage?: string
  readonly num_replicas?: number
  readonly sealed?: boolean
  readonly no_ack?: boolean
  readonly mirror?: object
  readonly sources?: readonly object[]
  readonly allow_msg_ttl?: boolean
  readonly subject_transform?: object
  /** Servers from 2.12 on. */
  readonly persist_mode?: string
}

export interface StreamInfo {
  readonly config?: StreamConfig
  /** The server's time, from servers 2.10 on. */
  readonly ts?: string
}

/** What is asked of a bucket. */
export interface BucketWish {
  readonly bucket: string
  readonly replicas: number
  /** The operator says that the servers write to disk before they answer. */
  readonly syncAlways: boolean
}

/** Calls that a cluster in turmoil leaves unanswered are sent again, so often within the timeout. */
const attempts = 4

/** The stream as it is. */
export function bucketInfo(api: JetStreamApi, bucket: string, withinMs: number): Promise<StreamInfo> {
  return api.call(`STREAM.INFO.KV_${bucket}`, {}, withinMs)
}

/** The stream. Makes it if it is not there; several may at once. */
export async function openBucket(api: JetStreamApi, wish: BucketWish, timeoutMs: number): Promise<StreamInfo> {
  refuseReplicas(api, wish.bucket, wish.replicas)
  const callMs = Math.ceil(timeoutMs / attempts)
  const endsAt = performance.now() + timeoutMs
  for (;;) {
    try {
      return await openOrMake(api, wish, callMs)
    } catch (error) {
      if (isNatsRefusal(error) || endsAt - performance.now() < callMs) throw error
    }
  }
}

async function openOrMake(api: JetStreamApi, { bucket, replicas }: BucketWish, callMs: number): Promise<StreamInfo> {
  const stream = `KV_${bucket}`
  try {
    return await bucketInfo(api, bucket, callMs)
  } catch (error) {
    if (!(error instanceof JetStreamRefusal) || error.code !== apiCode.noStream) throw error
  }
  const config = {
    name: stream,
    subjects: [`$KV.${bucket}.>`],
    retention: 'limits',
    storage: 'file',
    discard: 'new',
    num_replicas: replicas,
    max_msgs_per_subject: 1,
    max_age: 0,
    max_bytes: -1,
    max_msgs: -1,
    max_msg_size: -1,
    max_consumers: -1,
    deny_delete: true,
    allow_rollup_hdrs: true,
    allow_direct: true,
    ...(api.isAtLeast(2, 11) && { allow_msg_ttl: true }),
  }
  try {
    return await api.call(`STREAM.CREATE.${stream}`, config, callMs)
  } catch (error) {
    // Another process was quicker.
    if (!(error instanceof JetStreamRefusal) || error.code !== apiCode.streamExists) throw error
    return bucketInfo(api, bucket, callMs)
  }
}

/** Refuses replicas before 2.11, where of several writes that name the same sequence number more than one may win. */
export function refuseReplicas(api: Pick<JetStreamApi, 'isAtLeast'>, bucket: string, replicas: number): void {
  if (replicas === 1 || api.isAtLeast(2, 11)) return
  const problem = `has ${replicas} replicas: before nats-server 2.11 two writes that race may both win there`
  throw unsafe(bucket, problem, 'Update all servers, or use a bucket with one replica')
}

/** Refuses a bucket that may lose a lock while its servers are well. */
export function refuseUnsafe(bucket: string, config: StreamConfig): void {
  const { max_age = 0, max_bytes = -1, max_msgs = -1, max_msgs_per_subject, discard, retention } = config
  if (config.mirror !== undefined || (config.sources ?? []).length > 0)
    throw unsafe(bucket, 'copies another stream', 'Use the bucket that it copies')
  if (max_age > 0) throw unsafe(bucket, 'has a TTL: it would forget locks that are held', 'Set it to 0 (--ttl=0)')
  if (max_msgs_per_subject !== 1)
    throw unsafe(bucket, 'keeps older values: they would come back', 'Use a bucket with --history=1')
  if (retention !== 'limits') throw unsafe(bucket, `has the retention "${retention}"`, 'Use a KV bucket')
  if (discard !== 'new' && (max_bytes > 0 || max_msgs > 0))
    throw unsafe(bucket, 'makes room by removing the oldest locks', 'Set its discard policy to "new"')
  if (config.discard_new_per_subject === true)
    throw unsafe(bucket, 'takes no second write of a key', 'Set discard_new_per_subject to false')
  if (config.subject_transform !== undefined)
    throw unsafe(bucket, 'stores messages under other subjects', 'Use a bucket without a subject transform')
  if (config.sealed === true) throw unsafe(bucket, 'is sealed', 'Use another bucket')
  if (config.no_ack === true) throw unsafe(bucket, 'does not answer writes', 'Set no_ack to false')
  if (config.persist_mode === 'async')
    throw unsafe(bucket, 'answers writes before they are stored', 'Set its persist mode to "default"')
}

function unsafe(bucket: string, problem: string, advice: string): LeaseholdError {
  return new LeaseholdError('INVALID', `Locks are not safe in the NATS bucket "${bucket}": it ${problem}. ${advice}.`)
}

/** What an operator should know. */
export function bucketWarnings({ bucket, syncAlways }: BucketWish, config: StreamConfig): readonly string[] {
  const { storage, num_replicas = 1 } = config
  const subject = `The NATS bucket "${bucket}"`
  if (storage === 'memory') {
    const loss = num_replicas === 1 ? 'when its server restarts' : 'when its servers restart together'
    return [`${subject} is in memory: held locks are forgotten ${loss}, and others get them. Use file storage.`]
  }
  if (syncAlways) return []
  const loss =
    num_replicas === 1
      ? 'its one server loses power or its system crashes'
      : `most of its ${num_replicas} servers lose power at once`
  const problem = `${subject} may lose locks that were granted up to two minutes before ${loss}`
  const advice = 'Start nats-server, 2.10 or newer, with "sync_interval: always", and say so with the option syncAlways'
  return [`${problem}: NATS answers before a write is on disk. ${advice}.`]
}
