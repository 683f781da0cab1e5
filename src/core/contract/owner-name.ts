/**
 * How an owner is written in `runner.owner`: the names of the bodies it runs in, outermost first, then its own name,
 * separated by slashes. `a/b` is b, inside a. `a/` is a part of a that cannot be told from its siblings: it waits on behalf
 * of a, and what it holds has no owner.
 */

/** The name, escaped so that it can stand between slashes. */
export function ownerName(name: string): string {
  return name.replaceAll('%', '%25').replaceAll('/', '%2F')
}

/** The owners on whose behalf a claim waits: all of them stand still until it is granted. */
export function ownersOf(owner: string | undefined): readonly string[] {
  return owner === undefined ? [] : owner.split('/').filter((name) => name !== '')
}

/** The body or owner that a claim is made in or by. */
export function innermostOwner(owner: string | undefined): string | undefined {
  if (owner === undefined) return undefined
  const end = owner.endsWith('/') ? owner.length - 1 : owner.length
  return owner.slice(owner.lastIndexOf('/', end - 1) + 1, end)
}

/** The owner of a claim once it is held. Undefined: it has none. */
export function holdingOwnerOf(owner: string | undefined): string | undefined {
  const own = owner?.slice(owner.lastIndexOf('/') + 1)
  return own === '' ? undefined : own
}

/** Whether the owner of a held claim is the asking owner itself, or a body it runs in. */
export function isOwn(asking: string | undefined, held: string | undefined): boolean {
  const holdingOwner = holdingOwnerOf(held)
  return holdingOwner !== undefined && ownersOf(asking).includes(holdingOwner)
}
