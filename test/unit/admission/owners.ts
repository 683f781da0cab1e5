import type { Turn } from './play.ts'
import type { Owner, Position } from './position.ts'
import type { Event, Role, Scene } from './scene.ts'

/** What owners may believe after a turn: always the most, whether the answer arrived or not. */
export function ownersAfter(scene: Scene, { owners: before }: Position, event: Event, turn: Turn): readonly Owner[] {
  const owners = [...before]
  const change = (role: number, changed: Partial<Owner>): void => {
    owners[role] = { ...(owners.at(role) as Owner), ...changed }
  }
  const onNotification = (role: number, ttlMs: number): void => {
    const { trustsUntil, boundMs } = owners.at(role) as Owner
    change(role, { trustsUntil: Math.max(trustsUntil, turn.now + Math.min(ttlMs, boundMs)) })
  }
  const ask = (role: number, ttlMs: number): void => {
    const { trustsUntil, boundMs } = owners.at(role) as Owner
    change(role, { trustsUntil: Math.min(trustsUntil, turn.now + ttlMs), boundMs: Math.min(boundMs, ttlMs) })
  }

  if (event.type === 'claim' || event.type === 'renew') {
    const { claim } = scene.roles.at(event.role) as Role
    const ttlMs = event.type === 'renew' ? event.ttlMs : claim.ttlMs
    ask(event.role, ttlMs)
    // The conversion may have been granted without the answer arriving.
    const base = roleCalled(scene, claim.replaces)
    if (base >= 0) ask(base, ttlMs)
  }
  if (event.type === 'release' || event.type === 'die') {
    // Releasing a granted conversion releases all that its owner has.
    for (const role of event.type === 'die' ? [event.role] : letGo(scene, event.role, turn))
      change(role, { trustsUntil: -Infinity })
  }
  const { status, notifications } = turn.decision
  if ('role' in event && event.type !== 'evict' && status.state === 'held') onNotification(event.role, status.ttlMs)
  for (const { record, status: notified } of notifications) {
    const role = roleCalled(scene, record.claim.id)
    if (notified.state === 'held') onNotification(role, notified.ttlMs)
    else if (notified.state === 'absent' && notified.reason === 'evicted')
      for (const evicted of [role, roleCalled(scene, record.claim.replaces)])
        if (evicted >= 0) change(evicted, { trustsUntil: -Infinity })
  }
  return owners
}

/** Owners that still trust a lease which the store has ended. */
export function deceived({ roles }: Scene, { now, store, owners, dead }: Position): string[] {
  return roles
    .filter(({ claim }, role) => {
      const { trustsUntil } = owners.at(role) as Owner
      if (now >= trustsUntil || dead.has(claim.id)) return false
      const holder =
        store.holders.find((record) => record.claim.id === claim.id) ??
        store.holders.find((record) => record.claim.replaces === claim.id)
      return holder === undefined || holder.expiresAt < trustsUntil
    })
    .map(({ claim }) => `${claim.id} believes in a lease that the store has ended`)
}

function letGo(scene: Scene, role: number, { before }: Turn): readonly number[] {
  const { claim } = scene.roles.at(role) as Role
  const wasHeld = before.holders.some((holder) => holder.claim.id === claim.id)
  const base = roleCalled(scene, claim.replaces)
  return base >= 0 && wasHeld ? [role, base] : [role]
}

function roleCalled({ roles }: Scene, id: string | undefined): number {
  return id === undefined ? -1 : roles.findIndex(({ claim }) => claim.id === id)
}
