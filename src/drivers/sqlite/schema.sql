-- The tables of a Leasehold lock file, format 7. Run once, in the transaction that also marks the file as ours.
-- Times are whole milliseconds of the monotonic clock of the boot named first in `stamp`; they mean nothing elsewhere.
-- `stamp` is BOOT_NAMESPACE_PID_STARTED_SERIAL of the driver that last claimed or renewed, and the name of its inbox.
-- `runner` is JSON in the short form of core/rule/short-runner.ts. `terms` is what the claim asks for beyond a plain
-- exclusive lock and beyond the other columns, as JSON by the names of `Claim`; null: nothing.

create table held (
  key            text    not null,
  id             text    not null,
  -- From `sequence`: those who hold are read in the order in which they came to.
  turn           integer not null,
  fence          integer not null,
  stamp          text    not null,
  -- In force, as is `detached`: where a renewal has changed them, `terms` has what the claim asked for.
  ttl_ms         integer not null,
  detached       integer not null,
  entered_at     integer not null,
  -- 0: granted by a driver of another boot, whose clock says nothing here.
  acquired_at    integer not null,
  last_heartbeat integer not null,
  renewal_count  integer not null,
  expires_at     integer not null,
  -- 1: its process was seen to end; the row stays for its grace.
  died           integer not null,
  leaving        text,
  -- Whom it took over from, as JSON: how that ended, its fence, its runner, and what evicted it.
  succession     text,
  runner         text    not null,
  terms          text,
  -- The rest is null for an exclusive holder of a whole key, which is alone: it is for finding some of many holders.
  -- The mode and limit, and whether on a range: see `shapeOf` in crowd.ts.
  shape          text,
  -- `expires_at` and the grace.
  ends_at        integer,
  -- The logarithm of the range's length, and where it starts: see core/rule/range-index.ts.
  range_class    integer,
  range_start    integer,
  primary key (key, id)
) without rowid;

create index held_by_end on held (key, ends_at) where shape is not null;
create index held_by_start on held (key, expires_at - ttl_ms) where shape is not null;
create index held_by_stamp on held (key, stamp) where shape is not null;
create index held_by_range on held (key, range_class, range_start) where shape is not null;

-- How many hold a key by each shape, so that they need not be counted.
create table crowds (
  key     text    not null,
  shape   text    not null,
  holders integer not null,
  primary key (key, shape)
) without rowid;

create trigger count_in after insert on held when new.shape is not null begin
  insert into crowds values (new.key, new.shape, 1)
    on conflict (key, shape) do update set holders = holders + 1;
end;

create trigger count_out after delete on held when old.shape is not null begin
  update crowds set holders = holders - 1 where key = old.key and shape = old.shape;
  delete from crowds where key = old.key and shape = old.shape and holders <= 0;
end;

-- A hand-over to a plain claim makes the row of a lone shared holder an exclusive one.
create trigger count_over after update of shape on held when old.shape is not null and new.shape is null begin
  update crowds set holders = holders - 1 where key = old.key and shape = old.shape;
  delete from crowds where key = old.key and shape = old.shape and holders <= 0;
end;

create table waiting (
  key            text    not null,
  id             text    not null,
  -- Conversions first, then higher priority: lower goes first, and within a band the earlier arrival.
  band           integer not null,
  arrival        integer not null,
  stamp          text    not null,
  ttl_ms         integer not null,
  detached       integer not null,
  entered_at     integer not null,
  last_heartbeat integer not null,
  renewal_count  integer not null,
  expires_at     integer not null,
  -- 1: wants the whole key for itself, for as long as it renews, and takes nobody's place: what `handOver` can grant.
  plain          integer not null,
  runner         text    not null,
  terms          text,
  -- 1: shares with others without a limit.
  soft           integer not null,
  -- The rest is null for a waiter for the whole key. The logarithm of the range's length, and the range.
  range_class    integer,
  range_start    integer,
  range_end      integer,
  primary key (key, id)
) without rowid;

-- The order of the queue. A waiter is in one of these two, so that a queue for a whole key has a single index. `range_class` is in it so
-- that counting reads no rows.
create unique index waiting_by_rank on waiting (key, band, arrival, soft, range_class) where range_class is null;
create unique index ranged_by_rank on waiting (key, band, arrival, soft, range_class) where range_class is not null;
-- For finding some of many waiters for ranges: see waiter-crowd.ts.
create index ranged_by_range on waiting (key, soft, range_class, range_start, range_end, band, arrival)
  where range_class is not null;
create index ranged_by_end on waiting (key, expires_at) where range_class is not null;
create index ranged_by_start on waiting (key, expires_at - ttl_ms) where range_class is not null;
create index ranged_by_stamp on waiting (key, stamp) where range_class is not null;

-- How the last unclean end of a key came about: a hint, kept for one ttl.
create table endings (
  key    text    primary key,
  -- Whose clock `until` is of.
  boot   text    not null,
  until  integer not null,
  id     text    not null,
  how    text    not null,
  detail text,
  fence  integer not null,
  -- 1: a successor has been told.
  told   integer not null,
  runner text    not null,
  -- What evicted it. Null: nothing did, or a version wrote this that does not know the column.
  cause  text
) without rowid;

create index endings_by_time on endings (until);

-- When drivers of a boot first saw a claim of another boot at this renewal count: from then on it has one ttl.
create table sights (
  key           text    not null,
  id            text    not null,
  boot          text    not null,
  renewal_count integer not null,
  seen_at       integer not null,
  primary key (key, id, boot)
) without rowid;

-- The counters are a row among the holders, so that a plain grant or release writes a single page. The key is a blob:
-- no text equals it, and it sorts behind all of them. Its `entered_at` is when the file was born, in milliseconds since
-- 1970, and its `runner` which file that was (birth.ts): a copy finds another one there.
insert into held (key, id, turn, fence, stamp, ttl_ms, detached, entered_at, acquired_at, last_heartbeat, renewal_count,
  expires_at, died, runner)
values (x'', '', 0, 0, '', 0, 1, 0, 0, 0, 0, 0, 0, '');

-- A single fence counter serves every key, so the file does not grow with the names ever used. `sequence` numbers
-- arrivals and grants. `boot` last wrote. Every grant lifts the fence to the wall clock in microseconds: a power cut, or
-- an older copy of the file, may have lost the last ones.
create view tally as
  select fence, turn as sequence, stamp as boot from held where key = x'' and id = '';

-- A claim on an idle key may be a single statement (see shortcut.ts): this keeps the counters in step with it.
create trigger count_grant after insert on held when new.turn > (select sequence from tally) begin
  update held set fence = max(fence, new.fence), turn = new.turn where key = x'' and id = '';
end;

-- So may a hand-over: a holder's row becomes that of the first in the queue, and this does the rest.
create trigger count_hand_over after update of id on held begin
  delete from waiting where key = new.key and id = new.id;
  update held set fence = new.fence, turn = new.turn where key = x'' and id = '';
end;
