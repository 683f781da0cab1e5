/** What all copies of this package in a realm share under a name; made by the first that asks. */
export function oneInThisRealm<Shared extends object>(name: string, make: () => Shared): Shared {
  const shared = globalThis as unknown as Record<symbol, Shared | undefined>
  return (shared[Symbol.for(name)] ??= make())
}
