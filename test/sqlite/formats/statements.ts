/** What drivers of older formats said to SQLite, to be played on a file that has been upgraded under them. */
import type { OldFormat } from '../old-file.ts'

const holderColumns = `key, id, turn, fence, owner, ttl_ms, detached, entered_at, acquired_at, last_heartbeat,
  renewal_count, expires_at, died, leaving, succession, claim`
const waiterColumns = `key, id, band, arrival, owner, ttl_ms, detached, entered_at, last_heartbeat, renewal_count,
  expires_at, claim`

/** Every statement that a driver of this format ran on its tables. */
export function statementsOf(format: OldFormat): readonly string[] {
  return [...ofAll, ...(format === 3 ? ofThree : ofOneAndTwo), ...(format === 2 ? ofTwo : [])]
}

const ofAll = [
  `select fence, sequence, boot,
      (select count(*) from (select 1 from holders where key = ?1 limit 2)) as holders,
      exists (select 1 from waiters where key = ?1) as awaited,
      exists (select 1 from ended where key = ?1) as remembered
    from counters`,
  `insert into holders (${holderColumns})
    select ?1, ?2, sequence + 1, fence + 1, ?3, ?4, ?5, ?6, ?6, ?6, 0, ?7, 0, null, null, ?8 from counters
    where boot = ?9
      and not exists (select 1 from holders where key = ?1)
      and not exists (select 1 from waiters where key = ?1)
      and not exists (select 1 from ended where key = ?1)
    returning fence`,
  `delete from holders
    where key = ?1 and id = ?2 and owner = ?3 and expires_at > ?4
      and not exists (select 1 from waiters where key = ?1)
      and not exists (select 1 from holders as other where other.key = ?1 and other.id <> ?2)
    returning fence`,
  `select ${holderColumns} from holders where key = ?`,
  `select ${holderColumns} from holders where key = ? order by turn`,
  `insert into holders (${holderColumns}) values (${marks(16)})`,
  `update holders set fence = ?3, owner = ?4, ttl_ms = ?5, detached = ?6, acquired_at = ?7, last_heartbeat = ?8,
      renewal_count = ?9, expires_at = ?10, died = ?11, leaving = ?12, succession = ?13
    where key = ?1 and id = ?2`,
  'delete from holders where key = ? and id = ?',
  `select ${waiterColumns} from waiters where key = ? and id = ?`,
  `select ${waiterColumns} from waiters where key = ? order by band, arrival limit 1`,
  `select ${waiterColumns} from waiters where key = ?1 and (band, arrival) > (?2, ?3)
    order by band, arrival limit ?4`,
  `select count(*) as ahead from (
      select 1 from waiters where key = ?1 and (band, arrival) < (?2, ?3) limit 1000)`,
  `update waiters set owner = ?3, ttl_ms = ?4, detached = ?5, last_heartbeat = ?6, renewal_count = ?7,
      expires_at = ?8
    where key = ?1 and id = ?2`,
  'delete from waiters where key = ? and id = ?',
  'select boot, until, details from ended where key = ?',
  'replace into ended (key, boot, until, details) values (?, ?, ?, ?)',
  'delete from ended where key = ?',
  'delete from ended where key in (select key from ended where until <= ? limit 4)',
  'select renewal_count, seen_at from sightings where key = ? and id = ? and boot = ?',
  'replace into sightings (key, id, boot, renewal_count, seen_at) values (?, ?, ?, ?, ?)',
  'delete from sightings where key = ? and id = ?',
  `select owner from holders where key = ?1 and detached = 0
    union
    select owner from (select owner from waiters where key = ?1 and detached = 0 order by band, arrival limit 4)`,
  `select key from holders where key > ?1 and key >= ?2 and key < ?2 || cast(x'ff' as text)
    union
    select key from waiters where key > ?1 and key >= ?2 and key < ?2 || cast(x'ff' as text)
    order by key limit ?3`,
  'delete from ended where boot <> ? or until <= ?',
  `delete from sightings where not exists (select 1 from holders where key = sightings.key and id = sightings.id)
    and not exists (select 1 from waiters where key = sightings.key and id = sightings.id)`,
]

const ofOneAndTwo = [
  'update counters set fence = ?, sequence = ?, boot = ?',
  `insert into waiters (${waiterColumns}) values (${marks(12)})`,
  `select key from holders where expires_at <= ?2 or substr(owner, 1, length(?1)) <> ?1
    union
    select key from waiters where expires_at <= ?2 or substr(owner, 1, length(?1)) <> ?1
    limit ?3`,
]

const ofTwo = [
  `update holders
    set id = next.id, turn = sequence + 1, fence = counters.fence + 1, owner = next.owner, ttl_ms = next.ttl_ms,
      detached = next.detached, entered_at = next.entered_at, acquired_at = ?5, last_heartbeat = next.last_heartbeat,
      renewal_count = next.renewal_count, expires_at = next.expires_at, died = 0, leaving = null, succession = null,
      claim = next.claim
    from counters, (select * from waiters where key = ?1 order by band, arrival limit 1) as next
    where holders.key = ?1 and holders.id = ?2 and holders.owner = ?4 and holders.expires_at > ?5
      and next.id = ?3 and boot = ?6
      and not exists (select 1 from holders as other where other.key = ?1 and other.id <> ?2)
      and not exists (select 1 from ended where key = ?1)
    returning fence`,
]

const ofThree = [
  "update holders set fence = ?, turn = ?, owner = ? || '_' where key = x'' and id = ''",
  `insert into waiters (${waiterColumns}, plain) values (${marks(13)})`,
  `update holders
    set id = next.id, turn = sequence + 1, fence = counters.fence + 1, owner = next.owner, ttl_ms = next.ttl_ms,
      detached = next.detached, entered_at = next.entered_at, acquired_at = ?4, last_heartbeat = next.last_heartbeat,
      renewal_count = next.renewal_count, expires_at = next.expires_at, died = 0, leaving = null, succession = null,
      claim = next.claim
    from counters, (select * from waiters where key = ?1 order by band, arrival limit 1) as next
    where holders.key = ?1 and holders.id = ?2 and holders.owner = ?3 and holders.expires_at > ?4
      and next.plain = 1 and next.expires_at > ?4 and next.expires_at <= ?4 + next.ttl_ms
      and boot = ?5 and substr(next.owner, 1, length(?5) + 1) = ?5 || '_'
      and not exists (select 1 from holders as other where other.key = ?1 and other.id <> ?2)
      and not exists (select 1 from ended where key = ?1)
    returning fence, id, owner, detached, expires_at`,
  `select key from holders where (expires_at <= ?2 or substr(owner, 1, length(?1)) <> ?1) and key <> x''
    union
    select key from waiters where expires_at <= ?2 or substr(owner, 1, length(?1)) <> ?1
    limit ?3`,
]

function marks(count: number): string {
  return Array.from({ length: count }, () => '?').join(', ')
}
