import { fewHoldersMax } from './crowd-shape.ts'
import type { SqlCommand, Database, SqlQuery } from './database.ts'

const holderColumns = `key, id, turn, fence, stamp, ttl_ms, detached, entered_at, acquired_at, last_heartbeat,
  renewal_count, expires_at, died, leaving, succession, runner, terms`
const newHolderColumns = `${holderColumns}, shape, ends_at, range_class, range_start`
const waiterColumns = `key, id, band, arrival, stamp, ttl_ms, detached, entered_at, last_heartbeat, renewal_count,
  expires_at, plain, runner, terms`
const newWaiterColumns = `${waiterColumns}, soft, range_class, range_start, range_end`
/** The planner has no statistics, so each query names its index. */
const onWholeKey = 'waiting indexed by waiting_by_rank where range_class is null and'
const onRange = (index: string) => `waiting indexed by ${index} where range_class is not null and`

/** Every statement the driver runs, prepared once per connection. */
export interface Statements {
  readonly begin: SqlCommand
  readonly commit: SqlCommand
  readonly beginReading: SqlCommand
  /** Up to this many holders of a key, or waiters for its ranges, are read as a list. */
  readonly fewHoldersMax: number
  /** The counters, how many hold the key (at most one more than a list may have), and what else is stored of it: all there is to know of an idle one. */
  readonly summary: SqlQuery
  readonly setCounters: SqlCommand
  /** Grants a claim if nothing at all is stored of its key, with a fence that is at least the floor. */
  readonly claimIdleKey: SqlQuery
  /** Removes a holder of this driver's whose lease is not over, if it is alone and nobody waits. */
  readonly releaseLoneHolder: SqlQuery
  /** The first waiter for a whole key, the counters, and whether other holders or waiters, or an unclean end, matter to it. */
  readonly nextInLine: SqlQuery
  /** Puts a waiter in the place of a holder, if that is this driver's and not over. */
  readonly takePlace: SqlQuery
  /** Renews a holder of this driver's that has not expired, if its ttl stays and neither a longest hold nor an eviction limits it. */
  readonly renewOwnHolder: SqlQuery
  readonly holderOf: SqlQuery
  readonly holderById: SqlQuery
  readonly holdersOf: SqlQuery
  /** A few holders, for listings. */
  readonly firstHoldersOf: SqlQuery
  /** How many hold a key, and how many wait for it, counted up to a limit. */
  readonly countsOf: SqlQuery
  /** How many hold a key by each shape. */
  readonly talliesOf: SqlQuery
  readonly holdersOverBy: SqlQuery
  readonly holdersStartedAfter: SqlQuery
  /** Holders in the order of their ends, a page at a time. */
  readonly holdersByEnd: SqlQuery
  /** The next stamp among the holders, in order. */
  readonly holderStampAfter: SqlQuery
  /** Holders of a driver that do not outlive its process. */
  readonly holdersOfStamp: SqlQuery
  readonly wholeKeyHolders: SqlQuery
  readonly rangeClassAfter: SqlQuery
  /** Holders whose range is of a class and starts between two places. */
  readonly holdersInWindow: SqlQuery
  readonly insertHolder: SqlCommand
  readonly updateHolder: SqlCommand
  readonly deleteHolder: SqlCommand
  readonly waiterOf: SqlQuery
  readonly firstWaiterOf: SqlQuery
  readonly waitersAfter: SqlQuery
  readonly waitersBefore: SqlQuery
  /** How many wait for ranges of a key, at most one more than a list may have. */
  readonly rangedWaiters: SqlQuery
  /** Every stamp among the waiters for ranges. */
  readonly waiterStamps: SqlQuery
  readonly waiterConversions: SqlQuery
  /** Waiters for the whole key behind a place, strict or soft. */
  readonly wholeKeyWaitersAfter: SqlQuery
  /** Soft waiters for the whole key before a place that are over, or began in the future, or are of another driver. */
  readonly softWaitersToCheck: SqlQuery
  /** Waiters for ranges before a place that are over, or whose lease began in the future. */
  readonly rangedWaitersDue: SqlQuery
  readonly rangedWaitersOfStamp: SqlQuery
  readonly strictRangedWaitersAfter: SqlQuery
  readonly waiterRangeClasses: SqlQuery
  /** The first waiter for the next range of a class that starts between two places, and that range. */
  readonly nextLane: SqlQuery
  readonly laneWaitersAfter: SqlQuery
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

export function prepareStatements(database: Database, few = fewHoldersMax): Statements {
  const query = (sql: string) => database.query(sql)
  const command = (sql: string) => database.command(sql)
  return {
    begin: command('begin immediate'),
    commit: command('commit'),
    beginReading: command('begin'),
    fewHoldersMax: few,

    summary: query(`
      select fence, sequence,
        (select count(*) from (select 1 from held where key = ?1 limit ${few + 1})) as holders,
        exists (select 1 from waiting where key = ?1) as awaited,
        exists (select 1 from endings where key = ?1) as remembered
      from tally`),
    setCounters: command("update held set fence = ?, turn = ?, stamp = ? where key = x'' and id = ''"),

    claimIdleKey: query(`
      insert into held (${newHolderColumns})
      select ?1, ?2, sequence + 1, max(fence + 1, ?10), ?3, ?4, ?5, ?6, ?6, ?6, 0, ?7, 0, null, null, ?8, ?9,
        ?11, ?12, ?13, ?14 from tally
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
        exists (select 1 from ${onRange('ranged_by_rank')} key = ?1) as ranged,
        exists (select 1 from endings where endings.key = next.key) as remembered
      from waiting as next indexed by waiting_by_rank, tally where next.range_class is null and next.key = ?1
      order by band, arrival limit 1`),
    // The trigger does the rest. An UPDATE with FROM would be one statement less, and take ten times as long.
    takePlace: query(`
      update held
      set (id, stamp, ttl_ms, detached, entered_at, last_heartbeat, renewal_count, expires_at, runner, terms) = (
          select id, stamp, ttl_ms, detached, entered_at, last_heartbeat, renewal_count, expires_at, runner, terms
          from waiting where waiting.key = held.key and waiting.id = ?5),
        fence = ?6, turn = ?7, acquired_at = ?4, died = 0, leaving = null, succession = null,
        shape = null, ends_at = null, range_class = null, range_start = null
      where key = ?1 and id = ?2 and stamp = ?3 and expires_at > ?4
      returning fence`),

    // More than its ttl left: a clock was set back, and the rule shortens the lease. `ends_at` keeps its distance: the grace.
    renewOwnHolder: query(`
      update held
      set last_heartbeat = ?4, renewal_count = renewal_count + 1, expires_at = ?4 + ?5,
        ends_at = ends_at - expires_at + ?4 + ?5
      where key = ?1 and id = ?2 and stamp = ?3 and expires_at > ?4 and expires_at - ?4 <= ttl_ms and ttl_ms = ?5
        and died = 0 and leaving is null and succession is null
        and (terms is null or instr(terms, '"maxHoldMs"') = 0)
      returning fence`),

    // Most keys have one holder, and a single row is cheaper to read than a list of one.
    holderOf: query(`select ${holderColumns} from held where key = ?`),
    holderById: query(`select ${holderColumns} from held where key = ? and id = ?`),
    // In no order: to find the first turns, all holders would have to be read.
    firstHoldersOf: query(`select ${holderColumns} from held where key = ? limit ?`),
    countsOf: query(`
      select coalesce((select sum(holders) from crowds where key = ?1), (select count(*) from held where key = ?1)) as held,
        (select count(*) from (
          select 1 from ${onWholeKey} key = ?1
          union all
          select 1 from ${onRange('ranged_by_rank')} key = ?1
          limit ?2)) as waiting`),
    holdersOf: query(`select ${holderColumns} from held where key = ? order by turn`),
    // The planner has no statistics, and would read all holders of the key by another index.
    talliesOf: query('select shape, holders from crowds where key = ?'),
    holdersOverBy: query(
      `select ${holderColumns} from held indexed by held_by_end where key = ? and shape is not null and ends_at <= ?`,
    ),
    holdersStartedAfter: query(`
      select ${holderColumns} from held indexed by held_by_start where key = ? and shape is not null and expires_at - ttl_ms > ?`),
    holdersByEnd: query(`
      select ${holderColumns} from held indexed by held_by_end where key = ? and shape is not null order by ends_at limit ? offset ?`),
    holderStampAfter: query(`
      select min(stamp) as stamp from held indexed by held_by_stamp where key = ? and shape is not null and stamp > ?`),
    holdersOfStamp: query(`
      select ${holderColumns} from held indexed by held_by_stamp where key = ? and shape is not null and stamp = ? and detached = 0`),
    wholeKeyHolders: query(`
      select ${holderColumns} from held indexed by held_by_range where key = ? and shape is not null and range_class is null`),
    rangeClassAfter: query(`
      select min(range_class) as class from held indexed by held_by_range where key = ? and shape is not null and range_class > ?`),
    holdersInWindow: query(`
      select ${holderColumns} from held indexed by held_by_range
      where key = ? and shape is not null and range_class = ? and range_start > ? and range_start < ?`),
    insertHolder: command(`insert into held (${newHolderColumns}) values (${marks(21)})`),
    updateHolder: command(`
      update held set fence = ?3, stamp = ?4, ttl_ms = ?5, detached = ?6, acquired_at = ?7, last_heartbeat = ?8,
        renewal_count = ?9, expires_at = ?10, died = ?11, leaving = ?12, succession = ?13, terms = ?14, ends_at = ?15
      where key = ?1 and id = ?2`),
    deleteHolder: command('delete from held where key = ? and id = ?'),

    waiterOf: query(`select ${waiterColumns} from waiting where key = ? and id = ?`),
    firstWaiterOf: query(`
      select ${waiterColumns} from ${onWholeKey} key = ?1
      union all
      select ${waiterColumns} from ${onRange('ranged_by_rank')} key = ?1
      order by band, arrival limit 1`),
    waitersAfter: query(`
      select ${waiterColumns} from ${onWholeKey} key = ?1 and (band, arrival) > (?2, ?3)
      union all
      select ${waiterColumns} from ${onRange('ranged_by_rank')} key = ?1 and (band, arrival) > (?2, ?3)
      order by band, arrival limit ?4`),
    // Counting is the only step whose cost grows with the queue: past a thousand, a thousand is answer enough.
    waitersBefore: query(`
      select count(*) as ahead from (
        select 1 from ${onWholeKey} key = ?1 and (band, arrival) < (?2, ?3)
        union all
        select 1 from ${onRange('ranged_by_rank')} key = ?1 and (band, arrival) < (?2, ?3)
        limit 1000)`),
    rangedWaiters: query(`
      select count(*) as waiters from (select 1 from ${onRange('ranged_by_rank')} key = ?1 limit ${few + 1})`),
    waiterStamps: query(`
      with recursive stamps (stamp) as (
        select min(stamp) from ${onRange('ranged_by_stamp')} key = ?1
        union all
        select (select min(waiting.stamp) from ${onRange('ranged_by_stamp')} key = ?1 and waiting.stamp > stamps.stamp)
        from stamps where stamps.stamp is not null)
      select stamp from stamps where stamp is not null`),
    waiterConversions: query(`
      select ${waiterColumns} from ${onWholeKey} key = ?1 and band < ?2
      union all
      select ${waiterColumns} from ${onRange('ranged_by_rank')} key = ?1 and band < ?2
      order by band, arrival`),
    wholeKeyWaitersAfter: query(`
      select ${waiterColumns} from ${onWholeKey} key = ?1 and soft = ?2 and (band, arrival) > (?3, ?4)
      order by band, arrival limit ?5`),
    softWaitersToCheck: query(`
      select ${waiterColumns} from ${onWholeKey} key = ?1 and soft = 1 and (band, arrival) < (?2, ?3)
        and (expires_at <= ?4 or expires_at - ttl_ms > ?4 or stamp <> ?5)`),
    rangedWaitersDue: query(`
      select ${waiterColumns} from ${onRange('ranged_by_end')} key = ?1 and (band, arrival) < (?2, ?3)
        and expires_at <= ?4
      union all
      select ${waiterColumns} from ${onRange('ranged_by_start')} key = ?1 and (band, arrival) < (?2, ?3)
        and expires_at - ttl_ms > ?4`),
    rangedWaitersOfStamp: query(`
      select ${waiterColumns} from ${onRange('ranged_by_stamp')} key = ?1 and (band, arrival) < (?2, ?3)
        and stamp = ?4 and detached = 0`),
    strictRangedWaitersAfter: query(`
      select ${waiterColumns} from ${onRange('ranged_by_rank')} key = ?1 and soft = 0 and (band, arrival) > (?2, ?3)
      order by band, arrival limit ?4`),
    waiterRangeClasses: query(`
      with recursive classes (class) as (
        select min(range_class) from ${onRange('ranged_by_range')} key = ?1 and soft = ?2
        union all
        select (select min(range_class) from ${onRange('ranged_by_range')} key = ?1 and soft = ?2 and range_class > class)
        from classes where class is not null)
      select class from classes where class is not null`),
    nextLane: query(`
      select ${waiterColumns}, range_start, range_end from ${onRange('ranged_by_range')} key = ?1 and soft = ?2
        and range_class = ?3 and (range_start, range_end) > (?4, ?5) and range_start < ?6 and band > ?7
      order by range_start, range_end, band, arrival limit 1`),
    laneWaitersAfter: query(`
      select ${waiterColumns} from ${onRange('ranged_by_range')} key = ?1 and soft = ?2 and range_class = ?3
        and range_start = ?4 and range_end = ?5 and (band, arrival) > (?6, ?7)
      order by band, arrival limit ?8`),
    insertWaiter: command(`insert into waiting (${newWaiterColumns}) values (${marks(18)})`),
    updateWaiter: command(`
      update waiting set stamp = ?3, ttl_ms = ?4, detached = ?5, last_heartbeat = ?6, renewal_count = ?7,
        expires_at = ?8, terms = ?9
      where key = ?1 and id = ?2`),
    deleteWaiter: command('delete from waiting where key = ? and id = ?'),

    endedOf: query('select key, boot, until, id, how, detail, fence, told, runner, cause from endings where key = ?'),
    setEnded: command(`
      replace into endings (key, boot, until, id, how, detail, fence, told, runner, cause) values (${marks(10)})`),
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
      select stamp from (
        select stamp, band, arrival from ${onWholeKey} key = ?1 and detached = 0
        union all
        select stamp, band, arrival from ${onRange('ranged_by_rank')} key = ?1 and detached = 0
        order by band, arrival limit 4)`),
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
