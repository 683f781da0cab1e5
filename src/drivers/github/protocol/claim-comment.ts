/** A claim as a comment: a sentence for people, JSON for machines. */
import { isWithin, requestBounds } from '../../../core/contract/bounds.ts'
import type { Mode } from '../../../core/contract/driver.ts'
import { formatDuration } from '../../../core/time/duration.ts'
import {
  clockText,
  commentText,
  documentIn,
  nameText,
  objectOf,
  textOf,
  timeOf,
  timeText,
  wholeNumberOf,
} from './comment-text.ts'
import { type PublishedRunner, publishedRunnerIn } from './published-runner.ts'
import { taskInfoIn, type TaskInfo } from './task-info.ts'

/** How the owner of a claim completed it. */
export interface Completion {
  readonly result: string
  /** How long it was held; 0 if it never was. */
  readonly durationMs: number
  readonly at: number
}

/** The claim that a conversion replaces. */
export interface ReplacedClaim {
  readonly claim: string
  /** From which place on it stood in the way of others. */
  readonly place: number
}

/** The content of a claim's comment. Its times are for people to read: only GitHub's own timestamps decide. */
export interface CommentRecord {
  readonly id: string
  readonly key: string
  readonly ttlMs: number
  readonly mode: Mode
  readonly priority: number
  readonly replaces?: ReplacedClaim | undefined
  /** The last place that the claim has given up to let others go first; absent: none. */
  readonly left?: number | undefined
  /** The place it took after that: the id of its turn comment. */
  readonly turn?: number | undefined
  /** Written by version 1, which knows exclusive claims without priority only: its owner never steps back. */
  readonly old?: true | undefined
  readonly runner: PublishedRunner
  readonly task?: TaskInfo | undefined
  readonly claimedAt: number
  readonly heartbeatAt: number
  readonly renewals: number
  /** Set once the owner has seen the grant: every claim before it is then over. */
  readonly heldSince?: number | undefined
  readonly completion?: Completion | undefined
}

const version = 2
/** Version 1 is still read. */
const versions = new Set<unknown>([1, version])
/** The longest ttl of a claim. */
export const ttlMaxMs = 3_600_000

/** The text of a claim's comment. */
export function claimCommentText(record: CommentRecord): string {
  const { id, key, ttlMs, mode, priority, replaces, left, turn, runner, task } = record
  const { claimedAt, heartbeatAt, renewals, heldSince, completion } = record
  return commentText('claim', sentenceOf(record), {
    lock: {
      worker_id: runner.worker,
      node_id: runner.node,
      claimed_at: timeText(claimedAt),
      heartbeat_last: timeText(heartbeatAt),
      ...(task !== undefined && { task_info: task }),
    },
    leasehold: {
      version,
      claim: id,
      key,
      ttl_ms: ttlMs,
      mode,
      priority,
      renewals,
      ...(replaces !== undefined && { replaces: { claim: replaces.claim, place: replaces.place } }),
      ...(left !== undefined && { left }),
      ...(turn !== undefined && { turn }),
      ...(heldSince !== undefined && { held_since: timeText(heldSince) }),
      ...(runner.more !== undefined && { runner: runner.more }),
      ...(completion !== undefined && {
        completion: {
          result: completion.result,
          duration_ms: completion.durationMs,
          completed_at: timeText(completion.at),
        },
      }),
    },
  })
}

/** Reads a claim's comment; undefined if it is none, or if somebody broke it or a newer version wrote it. */
export function claimIn(body: string): CommentRecord | undefined {
  const document = documentIn('claim', body)
  const lock = objectOf(document?.['lock'])
  const own = objectOf(document?.['leasehold'])
  if (lock === undefined || own === undefined || !versions.has(own['version'])) return undefined
  const shape = own['version'] === version ? shapeIn(own) : oldShape
  const [id, key] = [textOf(own['claim']), textOf(own['key'])]
  const [ttlMs, renewals] = [wholeNumberOf(own['ttl_ms']), wholeNumberOf(own['renewals'])]
  const runner = publishedRunnerIn(lock, own['runner'])
  const [claimedAt, heartbeatAt] = [timeOf(lock['claimed_at']), timeOf(lock['heartbeat_last'])]
  if (id === undefined || key === undefined || runner === undefined || renewals === undefined) return undefined
  if (ttlMs === undefined || ttlMs === 0 || ttlMs > ttlMaxMs) return undefined
  if (claimedAt === undefined || heartbeatAt === undefined || shape === undefined) return undefined
  return {
    id,
    key,
    ttlMs,
    ...shape,
    runner,
    task: taskInfoIn(lock['task_info']),
    claimedAt,
    heartbeatAt,
    renewals,
    heldSince: timeOf(own['held_since']),
    completion: completionIn(own['completion']),
  }
}

type Shape = Pick<CommentRecord, 'mode' | 'priority' | 'replaces' | 'left' | 'turn' | 'old'>

const oldShape: Shape = { mode: 'exclusive', priority: 0, old: true }

function shapeIn(own: Readonly<Record<string, unknown>>): Shape | undefined {
  const { mode, priority } = own
  const replaces = own['replaces'] === undefined ? undefined : replacedIn(own['replaces'])
  if (mode !== 'exclusive' && mode !== 'shared') return undefined
  if (!isWithin(priority, requestBounds.priority)) return undefined
  if (own['replaces'] !== undefined && replaces === undefined) return undefined
  const [left, turn] = [wholeNumberOf(own['left']), wholeNumberOf(own['turn'])]
  return {
    mode,
    priority,
    ...(replaces !== undefined && { replaces }),
    ...(left !== undefined && { left }),
    ...(turn !== undefined && { turn }),
  }
}

function replacedIn(value: unknown): ReplacedClaim | undefined {
  const given = objectOf(value)
  const [claim, place] = [textOf(given?.['claim']), wholeNumberOf(given?.['place'])]
  return claim === undefined || place === undefined ? undefined : { claim, place }
}

/** What can still be read of a claim whose JSON somebody broke, or that a newer version wrote. */
export interface BrokenClaim {
  readonly key: string | undefined
  readonly ttlMs: number | undefined
  /** The result, if its owner had completed it. */
  readonly result: string | undefined
}

/**
 * Reads a broken claim line by line. Only whole lines with the indentation of `claimCommentText` count: metadata of a runner
 * is indented deeper, so it cannot forge a field. A claim is completed only if its sentence for people says so too.
 */
export function brokenClaimIn(body: string): BrokenClaim {
  const ttlMs = wholeNumberOf(lineIn(body, 4, 'ttl_ms'))
  const completed = /^✅ /m.test(body) && /^ {4}"completion": \{\r?$/m.test(body)
  return {
    key: textOf(lineIn(body, 4, 'key')),
    ttlMs: ttlMs === undefined || ttlMs === 0 || ttlMs > ttlMaxMs ? undefined : ttlMs,
    result: completed ? (textOf(lineIn(body, 6, 'result')) ?? 'released') : undefined,
  }
}

/** The value of a field on its own line. */
function lineIn(body: string, indent: number, field: string): unknown {
  const [, json] = new RegExp(`^ {${indent}}"${field}": (.*?),?\\r?$`, 'm').exec(body) ?? []
  try {
    return json === undefined ? undefined : JSON.parse(json)
  } catch {
    return undefined
  }
}

function completionIn(value: unknown): Completion | undefined {
  const given = objectOf(value)
  if (given === undefined) return undefined
  return {
    result: textOf(given['result']) ?? 'released',
    durationMs: wholeNumberOf(given['duration_ms']) ?? 0,
    at: timeOf(given['completed_at']) ?? 0,
  }
}

function sentenceOf(record: CommentRecord): string {
  const { runner, ttlMs, mode, priority, task, claimedAt, heartbeatAt, heldSince, completion } = record
  const name = `**${nameText(runner.worker)}**`
  if (completion !== undefined) {
    const { result, durationMs } = completion
    const held = heldSince === undefined ? 'never held it' : `held it for ${formatDuration(durationMs)}`
    return `✅ ${name} is done (${nameText(result)}): ${held}, and let go at ${clockText(completion.at)}.`
  }
  const type = task?.task_type === undefined ? '' : ` for ${nameText(task.task_type)}`
  const takes = task?.estimated_duration === undefined ? '' : `, about ${nameText(task.estimated_duration)}`
  const shares = mode === 'shared' ? ', shared with others' : ''
  const urgency = priority === 0 ? '' : `, with priority ${priority}`
  const heartbeat = `Last heartbeat ${clockText(heartbeatAt)}; after ${formatDuration(ttlMs)} without one its place is free.`
  if (heldSince !== undefined)
    return `🔒 ${name} holds this lock since ${clockText(heldSince)}${shares}${type}${takes}. ${heartbeat}`
  return `⏳ ${name} is in line for this lock since ${clockText(claimedAt)}${shares}${urgency}${type}${takes}. ${heartbeat}`
}
