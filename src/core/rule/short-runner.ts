import type { Runner } from '../contract/driver.ts'
import { LeaseholdError } from '../errors.ts'

/** The metadata of most runners: platform, when the runner was described in ms since 1970, and what the caller added. */
type ShortMetadata = readonly [platform: string, timestamp: number, more?: Readonly<Record<string, unknown>>]

type ShortRunner = readonly [
  id: string,
  /** 0: the same as the id. */
  incarnation: string | 0,
  host: string,
  pid: number,
  client: string,
  /** Unchanged if it does not have the usual form; 0: none. */
  metadata: ShortMetadata | Readonly<Record<string, unknown>> | 0,
  /** 0: none, though something follows. */
  owner?: string | 0,
  holds?: readonly string[],
]

/** The text of each runner: a client makes all its claims with the same few. */
const texts = new WeakMap<Runner, string>()

/**
 * A runner as JSON in less than half of the bytes, for a store that keeps it with every claim: without field names, and
 * without what stands in it twice.
 */
export function shortRunner(runner: Runner): string {
  let text = texts.get(runner)
  if (text === undefined) texts.set(runner, (text = shorten(runner)))
  return text
}

function shorten(runner: Runner): string {
  const { id, incarnation, host, pid, client, owner, holds, metadata } = runner
  const short: ShortRunner = [
    id,
    incarnation === id ? 0 : incarnation,
    host,
    pid,
    client,
    metadata === undefined ? 0 : (shortMetadata(runner, metadata) ?? metadata),
  ]
  if (holds !== undefined) return JSON.stringify([...short, owner ?? 0, holds])
  return JSON.stringify(owner === undefined ? short : [...short, owner])
}

/** The runner that {@link shortRunner} wrote, from its parsed JSON. */
export function wholeRunner(short: unknown): Runner {
  if (!Array.isArray(short)) {
    throw new LeaseholdError('INVALID', `The store has a claim whose runner is ${JSON.stringify(short)}.`)
  }
  const [id, incarnation, host, pid, client, metadata, owner, holds] = short as unknown as ShortRunner
  return {
    id,
    incarnation: incarnation === 0 ? id : incarnation,
    host,
    pid,
    client,
    ...(owner !== undefined && owner !== 0 && { owner }),
    ...(holds !== undefined && { holds }),
    ...(metadata !== 0 && { metadata: isShort(metadata) ? wholeMetadata(metadata, host, pid) : metadata }),
  }
}

function shortMetadata(runner: Runner, metadata: Readonly<Record<string, unknown>>): ShortMetadata | undefined {
  const { pid, hostname, platform, timestamp, ...more } = metadata
  if (pid !== runner.pid || hostname !== runner.host || typeof platform !== 'string') return undefined
  if (typeof timestamp !== 'string') return undefined
  const at = Date.parse(timestamp)
  if (Number.isNaN(at) || new Date(at).toISOString() !== timestamp) return undefined
  return Object.keys(more).length === 0 ? [platform, at] : [platform, at, more]
}

function isShort(metadata: ShortMetadata | Readonly<Record<string, unknown>>): metadata is ShortMetadata {
  return Array.isArray(metadata)
}

function wholeMetadata([platform, at, more]: ShortMetadata, hostname: string, pid: number): Record<string, unknown> {
  return { pid, hostname, platform, timestamp: new Date(at).toISOString(), ...more }
}
