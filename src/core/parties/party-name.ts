/**
 * How a party is written in `runner.party`: the names of the bodies it runs in, outermost first, then its own, between
 * slashes. `a/b` is b, inside a. `a/` is a part of a that nobody can tell from its siblings: it waits on behalf of a, and
 * what it holds belongs to nobody in particular.
 */

/** A name that can stand between slashes. */
export function partyName(name: string): string {
  return name.replaceAll('%', '%25').replaceAll('/', '%2F')
}

/** On whose behalf a claim waits: all of these stand still until it is granted. */
export function partiesOf(party: string | undefined): readonly string[] {
  return party === undefined ? [] : party.split('/').filter((name) => name !== '')
}

/** The body or party that a claim is made in or by. */
export function innermost(party: string | undefined): string | undefined {
  if (party === undefined) return undefined
  const end = party.endsWith('/') ? party.length - 1 : party.length
  return party.slice(party.lastIndexOf('/', end - 1) + 1, end)
}

/** Whose a claim is once it is held. Undefined: of nobody who could be said to be waiting. */
export function ownerOf(party: string | undefined): string | undefined {
  const own = party?.slice(party.lastIndexOf('/') + 1)
  return own === '' ? undefined : own
}

/** Whether what `held` owns is held by `asking` itself, or by a body it runs in. */
export function isOwn(asking: string | undefined, held: string | undefined): boolean {
  const owner = ownerOf(held)
  return owner !== undefined && partiesOf(asking).includes(owner)
}
