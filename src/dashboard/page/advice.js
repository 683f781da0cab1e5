/**
 * What is wrong, for how long, and what to do: the sentences of an operator. No elements here: all of it can be tested without a browser.
 * @module
 */
import { counted, durationText, runnerName, visible } from './wording.js'

/** @typedef {import('../documents.ts').LockRow} Row */
/** @typedef {import('../documents.ts').CyclesDocument} Cycles */
/** @typedef {'bad' | 'warn' | 'good'} Tone */
/** @typedef {{ readonly key: string, readonly tone: Tone, readonly name: string, readonly says: string, readonly todo: string }} Problem */

/** A healthy holder has renewed long before this part of its ttl is left. */
const unrenewedPart = 0.5
/** A wait of this length is worth a look. */
const longWaitMs = 10_000

/**
 * What is wrong with a lock; undefined if nothing is.
 * @param {Pick<Row, 'key' | 'scope' | 'holders' | 'held' | 'waiting' | 'longestWaitMs'>} row
 * @returns {Problem | undefined}
 */
export function problemOf({ key, scope, holders, held, waiting, longestWaitMs }) {
  const [holder] = holders
  const name = visible(scope)
  const queue =
    waiting === 0
      ? ''
      : `${counted(waiting, 'claim is', 'claims are')} queued, the longest for ${durationText(longestWaitMs)}.`
  if (holder === undefined) {
    if (waiting === 0) return undefined
    const todo = 'The first in line gets it when it asks next, within seconds.'
    return { key, tone: 'warn', name, says: `Nobody holds it. ${queue}`, todo }
  }
  const by =
    held > 1 ? `${counted(held, 'holder')}, ${runnerName(holder.runner)} among them` : runnerName(holder.runner)
  const since = `Held by ${by} for ${durationText(holder.sinceMs)}.`
  const expired = holders.find((claim) => claim.expired)
  if (expired !== undefined) {
    const says = `The lease of ${runnerName(expired.runner)} is over. ${queue}`.trim()
    return {
      key,
      tone: 'bad',
      name,
      says,
      todo: 'The holder died or is paused. The next in line takes over: nothing to do.',
    }
  }
  const leaving = holders.find((claim) => claim.leaving !== undefined)
  if (leaving !== undefined) {
    const says = `${runnerName(leaving.runner)} was asked to leave: ${visible(leaving.leaving ?? '')}. ${queue}`.trim()
    return { key, tone: 'warn', name, says, todo: 'Wait for it to finish, or evict it.' }
  }
  const silent = holders.find(
    (claim) => claim.remainingMs < claim.ttlMs * unrenewedPart && claim.lastHeartbeatMs > claim.ttlMs * unrenewedPart,
  )
  if (silent !== undefined && waiting > 0) {
    const says = `${runnerName(silent.runner)} has been silent for ${durationText(silent.lastHeartbeatMs)}. ${queue}`
    return {
      key,
      tone: 'bad',
      name,
      says,
      todo: `Unless it renews, the lock is free in ${durationText(silent.remainingMs)}. Or evict it now.`,
    }
  }
  if (waiting === 0 || longestWaitMs < longWaitMs) return undefined
  const todo = 'It renews, so it is alive: ask who runs it, or evict it.'
  return { key, tone: 'warn', name, says: `${since} ${queue}`, todo }
}

/**
 * The problems of these locks, deadlocks first.
 * @param {readonly Row[]} rows the worst first
 * @param {Cycles | undefined} found
 * @returns {readonly Problem[]}
 */
export function problemsOf(rows, found) {
  const deadlocks = (found?.cycles ?? []).map((cycle) => deadlockOf(cycle, found))
  const keys = new Set((found?.cycles ?? []).flat().map(({ key }) => key))
  const others = rows.flatMap((row) => (keys.has(row.key) ? [] : (problemOf(row) ?? [])))
  return [...deadlocks, ...others]
}

/**
 * @param {Cycles['cycles'][number]} cycle
 * @param {Cycles | undefined} found
 * @returns {Problem}
 */
function deadlockOf(cycle, found) {
  const owners = new Map((found?.owners ?? []).map((owner) => [owner.id, owner]))
  /** @param {string} id */
  const nameOf = (id) => {
    const owner = owners.get(id)
    if (owner === undefined) return 'somebody'
    return owner.owner === undefined ? runnerName(owner.runner) : visible(owner.owner)
  }
  const key = cycle[0]?.key ?? ''
  const keys = new Set(cycle.map((step) => step.key))
  const sinceMs = Math.max(
    0,
    ...(found?.waits ?? []).filter((wait) => wait.circular && keys.has(wait.key)).map((wait) => wait.sinceMs),
  )
  const names = cycle.map(({ owner }) => nameOf(owner)).join(', ')
  const locks = cycle.map(({ scope }) => visible(scope)).join(', ')
  return {
    key,
    tone: 'bad',
    name: `Deadlock of ${counted(cycle.length, 'owner')}`,
    says: `${names} wait for each other's locks (${locks}), for ${durationText(sinceMs)}.`,
    todo: 'None can go on until one gives up: evict one of them.',
  }
}
