import { excludes, overlaps } from '../../core/conflict.ts'
import type { ListedClaim, ListedKey, LockDriver } from '../../core/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { partiesOf } from '../../core/parties/party-name.ts'
import { describeScope, splitStoreKey } from '../../core/scope.ts'
import { findDeadlocks, statusInBoth, waitingClaims, type WaitingClaim } from '../../core/parties/wait-for-graph.ts'
import type { CyclesDocument, PartyDocument, WaitDocument } from '../../dashboard/documents.ts'
import type { Grant } from '../call.ts'
import { namespaceOf } from '../rights.ts'
import { comparable } from './comparable.ts'
import { runnerView } from './lock-view.ts'
import { lookAt, type Look } from './reading.ts'

/** A cycle must stand for so long to be believed: a look is no single moment. */
const secondLookMs = 100
/** More than this nobody reads, and ten thousand waiters make many. */
const waitsMax = 1000

/** Who waits for whom now, of what the grant may see. */
export async function readCycles(
  driver: Pick<LockDriver, 'list'>,
  environment: Pick<Environment, 'timer'>,
  grant: Grant,
  namespace: string | undefined,
): Promise<CyclesDocument> {
  const look = async (): Promise<Look> => {
    const seen = await lookAt(driver, namespace)
    return comparable({ ...seen, keys: seen.keys.filter(({ key }) => grant.covers(namespaceOf(key))) })
  }
  const first = await look()
  if (findDeadlocks(first).length === 0) return describeWaits(first, [])
  await new Promise<void>((resolve) => environment.timer(secondLookMs, resolve).keepAlive(true))
  const second = await look()
  const status = findDeadlocks({ now: second.now, keys: statusInBoth(first.keys, second.keys) })
  const cycles = status.map(({ cycle }) => cycle)
  return describeWaits(second, cycles)
}

/** A look at the store as a graph of parties. */
export function describeWaits(look: Look, deadlocks: readonly (readonly WaitingClaim[])[]): CyclesDocument {
  const parties = new Parties()
  const cycles = deadlocks.map((cycle) =>
    cycle.map(({ key, claim }) => ({ party: parties.of(claim), key, scope: scopeText(key, claim) })),
  )
  const circular = new Set(
    cycles.flatMap((cycle) =>
      cycle.map(({ party, key }, index) => wayName(party, cycle[(index + 1) % cycle.length]?.party ?? party, key)),
    ),
  )
  const waits = look.keys.flatMap((listed) => waitsOf(listed, look.now, parties, circular))
  // What matters most must not be cut off.
  waits.sort((one, other) => Number(other.circular) - Number(one.circular))
  const shown = waits.slice(0, waitsMax)
  const named = new Set([...cycles.flat().map(({ party }) => party), ...shown.flatMap(({ from, to }) => [from, to])])
  return {
    parties: parties.all.filter(({ id }) => named.has(id)),
    waits: shown,
    cycles,
    truncated: look.truncated || waits.length > waitsMax,
  }
}

/** For each waiter of a key: the holders in its way, and the waiter just before it. */
function waitsOf(
  { key, claims }: ListedKey,
  now: number,
  parties: Parties,
  circular: ReadonlySet<string>,
): readonly WaitDocument[] {
  const holders = claims.filter(({ state }) => state === 'held')
  return waitingClaims({ key, claims }, now).flatMap(({ claim, behind }) => {
    const from = parties.of(claim)
    const wait = (other: ListedClaim, because: WaitDocument['because']): WaitDocument => ({
      from,
      to: parties.of(other),
      because,
      namespace: namespaceOf(key),
      scope: scopeText(key, claim),
      key,
      sinceMs: Math.max(0, Math.round(now - claim.enteredAt)),
      circular: circular.has(wayName(from, parties.of(other), key)),
    })
    const held = holders.filter((holder) => isInTheWay(holder, claim)).map((holder) => wait(holder, 'holds'))
    // One party may hold several permits.
    const once = [...new Map(held.map((each) => [each.to, each])).values()]
    const isCircular = (other: ListedClaim): boolean => circular.has(wayName(from, parties.of(other), key))
    const ahead = behind.filter((other, index) => index === behind.length - 1 || isCircular(other.claim))
    return [...once, ...ahead.map((other) => wait(other.claim, 'ahead'))]
  })
}

function wayName(from: string, to: string, key: string): string {
  return `${from} ${to} ${key}`
}

/** Of a semaphore's holders any one would do, so all of them are shown. */
function isInTheWay(holder: ListedClaim, claim: ListedClaim): boolean {
  if (excludes(holder, claim)) return true
  return claim.limit !== undefined && overlaps(holder, claim)
}

function scopeText(key: string, { range }: ListedClaim): string {
  return describeScope({ key: splitStoreKey(key)?.scopeKey ?? key, range })
}

/** Gives those who claim their names in one document. Bodies inside a body stand still together, so they are one. */
class Parties {
  readonly #byName = new Map<string, PartyDocument>()
  readonly #byClaim = new Map<ListedClaim, string>()

  of(claim: ListedClaim): string {
    let id = this.#byClaim.get(claim)
    if (id === undefined) this.#byClaim.set(claim, (id = this.#find(claim)))
    return id
  }

  #find({ runner }: ListedClaim): string {
    const [outermost = ''] = partiesOf(runner.party)
    const name = `${runner.client} ${outermost}`
    let party = this.#byName.get(name)
    if (party === undefined) {
      party = { id: `p${this.#byName.size + 1}`, party: givenName(outermost), runner: runnerView(runner) }
      this.#byName.set(name, party)
    }
    return party.id
  }

  get all(): readonly PartyDocument[] {
    return [...this.#byName.values()]
  }
}

/** A party's name, unless it is an id that `run` made up. */
function givenName(party: string): string | undefined {
  if (party === '' || /^[0-9a-f]{32}$/.test(party)) return undefined
  try {
    return decodeURIComponent(party)
  } catch {
    return party
  }
}
