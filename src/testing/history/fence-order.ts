import { excludes } from '../../core/rule/conflict.ts'
import type { Attempt } from './attempt.ts'
import { Kinds } from './kinds.ts'
import type { Granted } from './overlap.ts'
import { violationName, type Violation } from './violation.ts'

/** Which claims of a key must have fences in order: all, or only those that exclude each other. */
export type FencesOf = 'all' | 'conflicting'

/** Fences of one key: each given once, and in the order of the grants as far as that is certain. @internal */
export function findFenceFaults(grants: readonly Granted[], fencesOf: FencesOf): Violation[] {
  const concerns = (a: Attempt, b: Attempt) => fencesOf === 'all' || excludes(a, b)
  return [...repeated(grants, concerns), ...fallen(grants, concerns), ...heldTooEarly(grants)]
}

type Concerns = (a: Attempt, b: Attempt) => boolean

function repeated(grants: readonly Granted[], concerns: Concerns): Violation[] {
  const violations: Violation[] = []
  const byFence = new Map<number, Granted[]>()
  for (const granted of grants) {
    const { fence } = granted.grant
    const sameFence = byFence.get(fence) ?? []
    const earlier = sameFence.find(
      (candidate) => concerns(candidate, granted) && grantOf(candidate) !== grantOf(granted),
    )
    if (earlier !== undefined)
      violations.push(fault('fence-repeated', earlier, granted, `were both given fence ${fence}`))
    byFence.set(fence, [...sameFence, granted])
  }
  return violations
}

/** The attempt whose grant this is: a lease that is handed off is granted once. */
function grantOf({ id, resumes }: Attempt): string {
  return resumes ?? id
}

/** A claim made after another's grant had returned must have a higher fence. */
function fallen(grants: readonly Granted[], concerns: Concerns): Violation[] {
  const violations: Violation[] = []
  const byReturn = grants.toSorted((a, b) => a.grant.returnedAt - b.grant.returnedAt)
  const highest = new Kinds<Granted | undefined>()
  let next = 0
  const asked = grants.filter(({ resumes }) => resumes === undefined)
  for (const granted of asked.toSorted((a, b) => a.invokedAt - b.invokedAt)) {
    for (; next < byReturn.length; next += 1) {
      const returned = byReturn[next]
      if (returned === undefined || returned.grant.returnedAt >= granted.invokedAt) break
      const kind = highest.of(returned, undefined)
      if ((kind.value?.grant.fence ?? 0) < returned.grant.fence) kind.value = returned
    }
    for (const { value } of highest.all()) {
      if (value === undefined || value.grant.fence <= granted.grant.fence || !concerns(value, granted)) continue
      violations.push(fault('fence-order', value, granted, 'came one after the other, with falling fences'))
      break
    }
  }
  return violations
}

/** In the order of fences, each grant came after the certain end of all before it that exclude it. */
function heldTooEarly(grants: readonly Granted[]): Violation[] {
  const violations: Violation[] = []
  const latest = new Kinds<Granted | undefined>()
  for (const granted of grants.toSorted((a, b) => a.grant.fence - b.grant.fence)) {
    for (const { value } of latest.all()) {
      if (value === undefined || value.grant.heldUntil <= granted.grant.returnedAt || !excludes(value, granted))
        continue
      // Holds at the same time are another violation, reported as `overlap`.
      if (value.grant.fence === granted.grant.fence || certainlyTogether(value, granted)) continue
      violations.push(fault('fence-order', value, granted, 'were held in the other order than their fences'))
      break
    }
    const { grant } = granted
    const kind = latest.of(granted, undefined)
    if (grant.heldUntil > grant.returnedAt && (kind.value?.grant.heldUntil ?? 0) < grant.heldUntil) kind.value = granted
  }
  return violations
}

function certainlyTogether(a: Granted, b: Granted): boolean {
  const from = Math.max(a.grant.returnedAt, b.grant.returnedAt)
  return from < Math.min(a.grant.heldUntil, b.grant.heldUntil)
}

function fault(kind: Violation['kind'], first: Granted, second: Granted, text: string): Violation {
  return {
    kind,
    key: first.key,
    attempts: [first.id, second.id],
    message: `${violationName(first)} and ${violationName(second)} ${text}`,
  }
}

/**
 * For stores that count fences one by one and per key: every missing fence was minted for an acquire whose outcome nobody
 * saw, or which gave up just as it was granted.
 */
export function findGaps(attempts: readonly Attempt[], grants: readonly Granted[]): Violation[] {
  const unseen = attempts
    .filter(({ grant }) => grant === undefined)
    .map(({ invokedAt }) => invokedAt)
    .toSorted((a, b) => a - b)
  const violations: Violation[] = []
  let missing = 0
  let accountable = 0
  let last: Granted | undefined
  for (const granted of grants.toSorted((a, b) => a.grant.fence - b.grant.fence)) {
    while (accountable < unseen.length && (unseen[accountable] ?? Infinity) < granted.grant.returnedAt) accountable += 1
    if (last !== undefined) missing += Math.max(0, granted.grant.fence - last.grant.fence - 1)
    if (missing > accountable) {
      violations.push({
        kind: 'fence-gap',
        key: granted.key,
        attempts: [last?.id ?? granted.id, granted.id],
        message: `${missing} fences are missing up to ${granted.grant.fence}, and ${accountable} acquires ended unseen`,
      })
      missing = accountable
    }
    last = granted
  }
  return violations
}
