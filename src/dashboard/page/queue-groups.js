/**
 * A queue in groups: forty claims of one service in a row are one line. No elements here: all of it can be tested without a browser.
 * @module
 */
import { runnerName, visible } from './wording.js'

/** @typedef {import('./wording.js').Claim} Claim */
/** @typedef {{ readonly name: string, readonly first: number, readonly claims: readonly Claim[] }} Group first: its place in the queue, from 1 on */

/**
 * Neighbours in the queue that are of one kind: same service, command or runner, same mode and priority.
 * @param {readonly Claim[]} waiters in order
 * @returns {Group[]}
 */
export function groupsOf(waiters) {
  /** @type {{ name: string, kind: string, first: number, claims: Claim[] }[]} */
  const groups = []
  for (const [index, claim] of waiters.entries()) {
    const name = groupName(claim)
    const kind = JSON.stringify([name, claim.mode, claim.limit, claim.priority, claim.range])
    const last = groups.at(-1)
    if (last?.kind === kind) last.claims.push(claim)
    else groups.push({ name, kind, first: index + 1, claims: [claim] })
  }
  return groups
}

/** @param {Claim} claim */
function groupName({ runner }) {
  const service = runner.metadata?.['service']
  return typeof service === 'string' && service !== '' ? visible(service) : runnerName(runner)
}
