import type { AsyncLocalStorage } from 'node:async_hooks'
import { builtin } from '../../core/machine/runtime.ts'
import { ownerName } from '../../core/contract/owner-name.ts'

/**
 * The owner whose code is running: a `run` body, inside the one that called it, and so on outward. Absent in a runtime that cannot
 * tell whose code is running: there a body's claims are its own only if they name its owner.
 */
const current = storage()

function storage(): AsyncLocalStorage<string | undefined> | undefined {
  // A polyfill may have the module, and nothing in it.
  const hooks: { readonly AsyncLocalStorage?: typeof AsyncLocalStorage } = builtin('node:async_hooks') ?? {}
  const { AsyncLocalStorage: Storage } = hooks
  return Storage === undefined ? undefined : new Storage()
}

/**
 * Whom a claim is for that is made now. One that names its owner is that owner's. Otherwise it is for the body that runs,
 * but not the body's own: it may be one of several that the body does side by side.
 */
export function claimingOwner(name: string | undefined): string | undefined {
  if (name !== undefined) return ownerName(name)
  const body = current?.getStore()
  return body === undefined ? undefined : `${body}/`
}

/** The owner of a new body: by its name, else by an id inside the body that runs. */
export function bodyOwner(name: string | undefined, id: () => string): string {
  if (name !== undefined) return ownerName(name)
  const body = current?.getStore()
  return body === undefined ? id() : `${body}/${id()}`
}

/** Runs a body as an owner. Undefined: as nobody, for what goes on in the background whoever began it. */
export function asOwner<Result>(owner: string | undefined, body: () => Result): Result {
  return current === undefined ? body() : current.run(owner, body)
}
