import { createHash } from 'node:crypto'
import type { ClaimStatus, Runner } from '../../core/contract/driver.ts'
import { storeKey } from '../../core/contract/scope.ts'
import type { Principal } from '../contract/call.ts'
import { namespaceOf } from './rights.ts'

/**
 * A runner as a token may see it. A claim that waits names locks that its owner holds (`holds`): the names of locks that the token may
 * not read are left out. `key` is the key of the claim; the names are of the same namespace. @internal
 */
export function readableRunner(runner: Runner, key: string, principal: Principal): Runner {
  const { holds, ...rest } = runner
  if (holds === undefined) return runner
  const namespace = namespaceOf(key)
  const readable = holds.filter((name) => principal.may('read', storeKey(namespace, name)))
  if (readable.length === holds.length) return runner
  return readable.length === 0 ? rest : { ...rest, holds: readable }
}

/**
 * A runner as deadlock detection of this token's clients may see it. An owner is known by its client and its name, and a claim may say any: a claim
 * by another token must not pass for one of an owner that this token has, or that a third one has. Each token's clients are thus apart. `via`
 * is written by servers. @internal
 */
export function runnerOfItsToken(runner: Runner, principal: Pick<Principal, 'name'>): Runner {
  const via = runner.metadata?.['via']
  if (typeof via !== 'string' || via === principal.name) return runner
  const named = JSON.stringify([via, runner.client])
  return { ...runner, client: createHash('sha256').update(named).digest('base64url').slice(0, 22) }
}

/** A runner for tokens that may not read who holds. */
const hiddenRunner: Runner = { id: 'hidden', incarnation: '', host: '', pid: 0, client: '' }

/**
 * The status of a claim as a token may see it: it names the holder before it, who may have named other locks. A token without `read` learns
 * how that lease ended and its fence, and not whose it was. @internal
 */
export function readableStatus(status: ClaimStatus, key: string, principal: Principal): ClaimStatus {
  if (status.state !== 'held' || status.after === undefined) return status
  const { runner: before } = status.after
  const runner = principal.may('read', key) ? readableRunner(before, key, principal) : hiddenRunner
  return runner === status.after.runner ? status : { ...status, after: { ...status.after, runner } }
}
