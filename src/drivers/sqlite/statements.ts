import type { SqlCommand, Database, SqlQuery } from './database.ts'

const holderColumns = `key, id, turn, fence, stamp, ttl_ms, detached, entered_at, acquired_at, last_heartbeat,
  renewal_count, expires_at, died, leaving, succession, runner, terms`
const waiterColumns = `key, id, band, arrival, stamp, ttl_ms, detached, entered_at, last_heartbeat, renewal_count,
  expires_at, plain, runner, terms`

/** Every statement the driver runs, prepared once per connection. */
export interface Statements {
  readonly begin: SqlCommand
  readonly commit: SqlCommand
  readonly beginReading: SqlCommand
  /** The counters, how many hold the key (2: several), and what else is stored of it: all there is to know of an idle one. */
  readonly summary: SqlQuery
  readonly setCounters: SqlCommand
  /** Grants a claim if nothing at all is stored of its key, with a fence that is at least the floor. */
  readonly claimIdleKey: SqlQuery
  /** Removes a holder of this driver's whose lease is not over, if it is alone and nobody waits. */
  readonly releaseLoneHolder: SqlQuery
  /** The first waiter of a key, the counters, and whether others than this holder, or an unclean end, matter to it. */
  readonly nextInLine: SqlQuery
  /** Puts a waiter in the place of a holder, if that is this driver's and not over. */
  readonly takePlace: SqlQuery
  readonly holderOf: SqlQuery
  readonly holdersOf: SqlQuery
  readonly insertHolder: SqlCommand
  readonly updateHolder: SqlCommand
  readonly deleteHolder: SqlCommand
  readonly waiterOf: SqlQuery
  readonly firstWaiterOf: SqlQuery
  readonly waitersAfter: SqlQuery
  readonly waitersBefore: SqlQuery
  readonly insertWaiter: SqlCommand
  readonly updateWaiter: SqlCommand
  readonly deleteWaiter: SqlCommand
  readonly endedOf: SqlQuery
  readonly setEnded: SqlCommand
  readonly deleteEnded: SqlCommand
  readonly forgetEnded: SqlCommand
  readonly sightingOf: SqlQuery
  readonly setSighting: SqlCommand
  readonly deleteSightings: SqlCommand
  readonly dataVersion: SqlQuery
  readonly stampsOf: SqlQuery
  /** Which locks a driver holds: its claims. */
  readonly heldBy: SqlQuery
  readonly keysAfter: SqlQuery
  readonly expiredKeys: SqlQuery
}

export function prepareStatements(database: Database): Statements {
  const query = (sql: string) => database.query(sql)
  const command = (sql: string) => database.command(sql)
  return {
    begin: command('begin immediate'),
    commit: command('commit'),
    beginReading: command('begin'),

    summary: query(`
      select fence, sequence,
        (select count(*) from (select 1 from held where key = ?1 limit 2)) as holders,
        exists (select 1 from waiting where key = ?1) as awaited,
        exists (select 1 from endings where key = ?1) as remembered
      from tally`),
    setCounters: command("update held set fence = ?, turn = ?, stamp = ? where key = x'' and id = ''"),

    claimIdleKey: query(`
      insert into held (${holderColumns})
      select ?1, ?2, sequence + 1, max(fence + 1, ?10), ?3, ?4, ?5, ?6, ?6, ?6, 0, ?7, 0, null, null, ?8, ?9 from tally
      where fence < ${Number.MAX_SAFE_INTEGER}
        and not exists (select 1 from held where key = ?1)
        and not exists (select 1 from waiting where key = ?1)
        and not exists (select 1 from endings where key = ?1)
      returning fence`),
    releaseLoneHolder: query(`
      delete from held
      where key = ? and id = ? and stamp = ? and expires_at > ?
        and not exists (select 1 from waiting where waiting.key = held.key)
        and not exists (select 1 from held as other where other.key = held.key and other.id <> held.id)
      returning fence`),

    nextInLine: query(`
      select next.id, next.stamp, next.detached, next.ttl_ms, next.expires_at, next.plain, fence, sequence,
        exists (select 1 from held as other where other.key = next.key and other.id <> ?2) as shared,
        exists (select 1 from endings where endings.key = next.key) as remembered
      from waiting as next, tally where next.key = ?1
      order by band, arrival limit 1`),
    // The trigger does the rest. An UPDATE with FROM would be one statement less, and take ten times as long.
    takePlace: query(`
      update held
      set (id, stamp, ttl_ms, detached, entered_at, last_heartbeat, renewal_count, expires_at, runner, terms) = (
          select id, stamp, ttl_ms, detached, entered_at, last_heartbeat, renewal_count, expires_at, runner, terms
          from waiting where waiting.key = held.key and waiting.id = ?5),
        fence = ?6, turn = ?7, acquired_at = ?4, died = 0, leaving = null, succession = null
      where key = ?1 and id = ?2 and stamp = ?3 and expires_at > ?4
      returning fence`),

    // Most keys have one holder, and a single row is cheaper to read than a list of one.
    holderOf: query(`select ${holderColumns} from held where key = ?`),
    holdersOf: query(`select ${holderColumns} from held where key = ? order by turn`),
    insertHolder: command(`insert into held (${holderColumns}) values (${marks(17)})`),
    updateHolder: command(`
      update held set fence = ?3, stamp = ?4, ttl_ms = ?5, detached = ?6, acquired_at = ?7, last_heartbeat = ?8,
        renewal_count = ?9, expires_at = ?10, died = ?11, leaving = ?12, succession = ?13, terms = ?14
      where key = ?1 and id = ?2`),
    deleteHolder: command('delete from held where key = ? and id = ?'),

    waiterOf: query(`select ${waiterColumns} from waiting where key = ? and id = ?`),
    firstWaiterOf: query(`select ${waiterColumns} from waiting where key = ? order by band, arrival limit 1`),
    waitersAfter: query(`
      select ${waiterColumns} from waiting where key = ?1 and (band, arrival) > (?2, ?3)
      order by band, arrival limit ?4`),
    // Counting is the only step whose cost grows with the queue: past a thousand, a thousand is answer enough.
    waitersBefore: query(`
      select count(*) as ahead from (
        select 1 from waiting where key = ?1 and (band, arrival) < (?2, ?3) limit 1000)`),
    insertWaiter: command(`insert into waiting (${waiterColumns}) values (${marks(14)})`),
    updateWaiter: command(`
      update waiting set stamp = ?3, ttl_ms = ?4, detached = ?5, last_heartbeat = ?6, renewal_count = ?7,
        expires_at = ?8, terms = ?9
      where key = ?1 and id = ?2`),
    deleteWaiter: command('delete from waiting where key = ? and id = ?'),

    endedOf: query('select key, boot, until, id, how, detail, fence, told, runner from endings where key = ?'),
    setEnded: command(`
      replace into endings (key, boot, until, id, how, detail, fence, told, runner) values (${marks(9)})`),
    deleteEnded: command('delete from endings where key = ?'),
    // A few at a time, in passing.
    forgetEnded: command('delete from endings where key in (select key from endings where until <= ? limit 4)'),

    sightingOf: query('select renewal_count, seen_at from sights where key = ? and id = ? and boot = ?'),
    setSighting: command('replace into sights (key, id, boot, renewal_count, seen_at) values (?, ?, ?, ?, ?)'),
    deleteSightings: command('delete from sights where key = ? and id = ?'),

    dataVersion: query('pragma data_version'),
    // Holders, and the first few waiters: a dead one there holds up those behind it.
    stampsOf: query(`
      select stamp from held where key = ?1 and detached = 0
      union
      select stamp from (select stamp from waiting where key = ?1 and detached = 0 order by band, arrival limit 4)`),
    heldBy: query("select key, id from held where stamp = ? and key <> x''"),
    // The byte ff is in no text, so it ends the range of keys that begin with ?2.
    keysAfter: query(`
      select key from held where key > ?1 and key >= ?2 and key < ?2 || cast(x'ff' as text)
      union
      select key from waiting where key > ?1 and key >= ?2 and key < ?2 || cast(x'ff' as text)
      order by key limit ?3`),
    // Of another boot, or over by this one's clock. Read once an opening, to let go of names nobody asks for again.
    expiredKeys: query(`
      select key from held where (expires_at <= ?2 or substr(stamp, 1, length(?1)) <> ?1) and key <> x''
      union
      select key from waiting where expires_at <= ?2 or substr(stamp, 1, length(?1)) <> ?1
      limit ?3`),
  }
}

function marks(count: number): string {
  return Array.from({ length: count }, () => '?').join(', ')
}
