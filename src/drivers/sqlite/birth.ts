import { rollBack, type Database } from './database.ts'
import { identityText, isIdentityOf, type FileIdentity } from './file-identity.ts'

/** What the file says of itself, in columns of the row of counters that mean nothing there. */
interface Birth {
  /** Milliseconds since 1970; 0: no version of Leasehold that notes it has opened the file. */
  readonly bornAt: number
  /** See {@link identityText}. */
  readonly identity: string
}

/** Who opens the file, and what its clocks say. */
interface Opener {
  readonly boot: string
  readonly clock: { now(): number; wall(): number }
}

/** When the file was born: it has kept every claim since then. */
export function bornAt(database: Database): number {
  return readBirth(database).bornAt
}

/**
 * Notes when the file was born, if it does not say so. A file that says it of another one is a copy, or was put back from a
 * backup: it is born now, and what it has of claims may be old. Their owners may have renewed them elsewhere, so each has its
 * full ttl from now. `refuseIfInUse` throws while somebody may still use the file that the copy took the place of.
 */
export function settleBirth(
  database: Database,
  identity: FileIdentity,
  { boot, clock }: Opener,
  refuseIfInUse: () => void,
): void {
  if (isSettled(readBirth(database), identity)) return
  database.exec('begin immediate')
  try {
    const birth = readBirth(database)
    if (!isSettled(birth, identity)) {
      const isCopy = birth.identity !== '' && !isIdentityOf(birth.identity, identity)
      if (isCopy) {
        refuseIfInUse()
        renewAll(database, boot, Math.floor(clock.now()))
      }
      const since = isCopy || birth.bornAt === 0 ? clock.wall() : birth.bornAt
      database
        .command("update held set entered_at = ?, runner = ? where key = x'' and id = ''")
        .run(since, identityText(identity))
    }
    database.exec('commit')
  } catch (error) {
    rollBack(database)
    throw error
  }
}

function isSettled({ bornAt: since, identity }: Birth, found: FileIdentity): boolean {
  if (since === 0 || !isIdentityOf(identity, found)) return false
  // A new file may not have told the time of its birth yet.
  return found.madeAt === undefined || identity.includes(' ')
}

function readBirth(database: Database): Birth {
  const row = database.query("select entered_at, runner from held where key = x'' and id = ''").get()
  return { bornAt: Number(row?.['entered_at'] ?? 0), identity: String(row?.['runner'] ?? '') }
}

/** Leases on another boot's clock begin anew with the next look at them. */
function renewAll(database: Database, boot: string, now: number): void {
  for (const table of ['held', 'waiting']) {
    database
      .command(`update ${table} set expires_at = max(expires_at, ?1 + ttl_ms), last_heartbeat = max(last_heartbeat, ?1)
        where substr(stamp, 1, length(?2)) = ?2 and key <> x''`)
      .run(now, `${boot}_`)
  }
  database.exec('delete from sights')
}
