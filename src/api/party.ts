import { AsyncLocalStorage } from 'node:async_hooks'

/** The party whose code is running: a `run` body, inside the one that called it, and so on outward. */
const current = new AsyncLocalStorage<string>()

/** The party that asks now, unless it names itself. */
export function currentParty(): string | undefined {
  return current.getStore()
}

/** Runs a body as a party of its own, inside the one that is running. */
export function asParty<Result>(name: string, body: () => Result): Result {
  const outer = current.getStore()
  return current.run(outer === undefined ? name : `${outer}/${name}`, body)
}

/** Whether `inner` is `outer` or runs inside it. Two that run side by side are not one party. */
export function isWithin(inner: string | undefined, outer: string | undefined): boolean {
  if (inner === undefined || outer === undefined) return false
  return inner === outer || inner.startsWith(`${outer}/`)
}
