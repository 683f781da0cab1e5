import { createHash } from 'node:crypto'
import admission from './lua/admission.lua.generated.ts'
import batch from './lua/batch.lua.generated.ts'
import call from './lua/call.lua.generated.ts'
import claimRecord from './lua/claim-record.lua.generated.ts'
import conflict from './lua/conflict.lua.generated.ts'
import contended from './lua/contended.lua.generated.ts'
import dataAge from './lua/data-age.lua.generated.ts'
import draft from './lua/draft.lua.generated.ts'
import fence from './lua/fence.lua.generated.ts'
import holders from './lua/holders.lua.generated.ts'
import keyState from './lua/key-state.lua.generated.ts'
import list from './lua/list.lua.generated.ts'
import localWalk from './lua/local-walk.lua.generated.ts'
import notifications from './lua/notifications.lua.generated.ts'
import plain from './lua/plain.lua.generated.ts'
import promotion from './lua/promotion.lua.generated.ts'
import quick from './lua/quick.lua.generated.ts'
import solo from './lua/solo.lua.generated.ts'
import soloCall from './lua/solo-call.lua.generated.ts'
import soloRest from './lua/solo-rest.lua.generated.ts'
import spilled from './lua/spilled.lua.generated.ts'
import waiterIndex from './lua/waiter-index.lua.generated.ts'
import { isUnknownScript } from './errors.ts'
import type { RedisTransport } from './transport.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { hashTags } from './hash-tags.ts'
import type { RedisKeyspace } from './keyspace.ts'

/** A Lua script, and the hash by which Redis knows it. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/** The rule's own names for what the parts of a call share. */
const shared = 'local now, tagEnd, channel, spareMs = call.now, call.tagEnd, call.channel, call.spareMs'

/** The parts of the rule in the order in which they build on each other; made only when a call needs it, which is expensive. */
const theRule = [
  'local function theRule(call, nextFence, liftFence, refuseIfMigrating)',
  shared,
  claimRecord,
  plain,
  conflict,
  keyState,
  spilled,
  holders,
  draft,
  promotion,
  'createIndexing = function()',
  waiterIndex,
  localWalk,
  'end',
  admission,
  'end',
]

/** The scripts that carry out requests. */
export interface Scripts {
  /** Any requests. */
  readonly batch: Script
  /** One plain request. */
  readonly solo: Script
}

/** Those for a cluster look out for slots that are being moved. */
const ownScripts = requestScripts('local ON_CLUSTER, NOTIFICATIONS_IN_REPLY = 0, 1')
const givenScripts = requestScripts('local ON_CLUSTER, NOTIFICATIONS_IN_REPLY = 0, 0')
const clusterScripts = requestScripts('local ON_CLUSTER, NOTIFICATIONS_IN_REPLY = 1, 0')

export function scriptsFor({
  cluster,
  notificationsInReplies,
}: Pick<RedisTransport, 'cluster' | 'notificationsInReplies'>): Scripts {
  return cluster ? clusterScripts : notificationsInReplies ? ownScripts : givenScripts
}

function requestScripts(where: string): Scripts {
  return {
    batch: script(where, call, fence, notifications, ...theRule, quick, batch),
    solo: script(where, solo, fence, notifications, soloCall, contended, ...theRule, soloRest),
  }
}

/** Reads since when Redis has kept the data. */
export const dataAgeScript = script(dataAge)

/** Reads keys and the first of their claims. */
export const listScript = script(call, shared, claimRecord, plain, list)

function script(...parts: readonly string[]): Script {
  const text = withConstants(parts.join('\n'))
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/**
 * Puts numbers in the place of constants, lines such as `local ID, TTL = 1, 2`. Lua has none: they are variables, and a
 * function that refers to twenty of them takes long to make.
 */
function withConstants(text: string): string {
  const numbers = new Map<string, string>()
  const rest = text.replaceAll(
    /^local ([A-Z_]+(?:, [A-Z_]+)*) = (\d+(?:, \d+)*)$/gm,
    (_, names: string, values: string) => {
      const each = values.split(', ')
      for (const [index, name] of names.split(', ').entries()) numbers.set(name, each[index] as string)
      return ''
    },
  )
  return rest.replaceAll(/\b[A-Z_]{2,}\b/g, (name) => numbers.get(name) ?? name)
}

/** Runs a script by its hash. A server that does not know the script (new, flushed, restarted) is sent the text. */
export function runScript(
  transport: RedisTransport,
  { sha, text }: Script,
  keys: readonly string[],
  values: readonly string[],
  withinMs: number,
): Promise<unknown> {
  const args = [sha, String(keys.length), ...keys, ...values]
  return transport.call('EVALSHA', args, keys[0], withinMs).catch((error: unknown) => {
    // An unknown script has carried out nothing, so it may be sent again.
    if (!isUnknownScript(error)) throw error
    return transport.call('EVAL', args.with(0, text), keys[0], withinMs)
  })
}

/**
 * For how many milliseconds a store has kept its data. One server keeps or loses all data; on a cluster each hash tag may
 * be on another server, so the youngest counts.
 */
export async function readDataAge(
  transport: RedisTransport,
  keyspace: RedisKeyspace,
  withinMs: number,
): Promise<number> {
  const tags = transport.cluster ? hashTags.keys() : [0]
  const read = (tag: number): Promise<unknown> =>
    runScript(transport, dataAgeScript, [keyspace.birthOf(tag)], [], withinMs)
  const answers = await Promise.all(Array.from(tags, read))
  const ageMs = Math.min(...answers.map(Number))
  if (ageMs >= 0) return ageMs
  throw new LeaseholdError('UNAVAILABLE', 'Redis did not tell how old its data is.', { reason: 'configuration' })
}
