import { rollBack, type Database } from './database.ts'
import { identityText, isIdentityOf, type FileIdentity } from './file-identity.ts'

/** When and as which file the store was made, kept in columns that the row of counters does not need. */
interface Birth {
  /** Milliseconds since 1970; 0: not noted yet. */
  readonly bornAt: number
  /** See {@link identityText}. */
  readonly identity: string
}

/** The boot and the clocks of the driver that opens the file. */
interface Opener {
  readonly boot: string
  readonly clock: { now(): number; wall(): number }
}

/** When the file was born: it has kept every claim since then. */
export function bornAt(database: Database): number {
  return readBirth(database).bornAt
}

/**
 * Notes when the file was born, if it does not say so. If it names another file, it is a copy, or was restored from a backup: it is
 * born now, and its claims may be old. Their owners may have renewed them elsewhere, so each gets its full ttl from now.
 * `refuseIfInUse` throws while a process may still use the file that the copy replaced.
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
  // A new file may have been noted before the file system knew the time of its birth.
  return found.madeAt === undefined || identity.includes(' ')
}

function readBirth(database: Database): Birth {
  const row = database.query("select entered_at, runner from held where key = x'' and id = ''").get()
  return { bornAt: Number(row?.['entered_at'] ?? 0), identity: String(row?.['runner'] ?? '') }
}

/** Without sightings, leases on another boot's clock begin anew when they are next read. */
function renewAll(database: Database, boot: string, now: number): void {
  for (const table of ['held', 'waiting']) {
    database
      .command(`update ${table} set expires_at = max(expires_at, ?1 + ttl_ms), last_heartbeat = max(last_heartbeat, ?1)
        where substr(stamp, 1, length(?2)) = ?2 and key <> x''`)
      .run(now, `${boot}_`)
  }
  database.exec('delete from sights')
}
