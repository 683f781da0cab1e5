import type { AsyncLocalStorage } from 'node:async_hooks'
import { builtin } from '../../core/machine/runtime.ts'
import { ownerName } from '../../core/contract/owner-name.ts'

/**
 * The owner whose code is running: the name of a `run` body, after the names of the bodies around it. Undefined in a runtime without
 * AsyncLocalStorage: there a claim belongs to a body only if the claim names its owner.
 */
const current = storage()

function storage(): AsyncLocalStorage<string | undefined> | undefined {
  // A polyfill of the module may be empty.
  const hooks: { readonly AsyncLocalStorage?: typeof AsyncLocalStorage } = builtin('node:async_hooks') ?? {}
  const { AsyncLocalStorage: Storage } = hooks
  return Storage === undefined ? undefined : new Storage()
}

/**
 * The owner of a claim that is made now. A claim that names its owner belongs to that owner. Any other claim is for the body that
 * runs, but not the body's own: the body may make several claims side by side.
 */
export function claimingOwner(name: string | undefined): string | undefined {
  if (name !== undefined) return ownerName(name)
  const body = current?.getStore()
  return body === undefined ? undefined : `${body}/`
}

/** The owner of a new body: its name, else a new id inside the body that runs. */
export function bodyOwner(name: string | undefined, id: () => string): string {
  if (name !== undefined) return ownerName(name)
  const body = current?.getStore()
  return body === undefined ? id() : `${body}/${id()}`
}

/** Runs a body as an owner. Undefined: without an owner, for background work that may outlive its caller. */
export function asOwner<Result>(owner: string | undefined, body: () => Result): Result {
  return current === undefined ? body() : current.run(owner, body)
}
