-- The tables of a Leasehold schema, format 2. "leasehold." stands for the schema's name, @table@ for table or
-- unlogged table. Safe to run again. Times are whole milliseconds since 1970 by the database's clock.

create schema if not exists leasehold;

-- One row. `tables` is the format of the data, `functions` the revision of the code beside it.
create table if not exists leasehold.format (
  one       boolean primary key default true check (one),
  tables    integer not null,
  functions integer not null
);

-- One row for each key in use, locked by a transaction that works on the key. Kept for an hour after its last fence, then
-- tidied away. A holder without company stands in the row itself, so that an uncontended lock costs one update in place; so
-- does, mostly, an exclusive holder while others wait, so that its place passes on by one update.
create @table@ if not exists leasehold.keys (
  key            text collate "C" primary key,
  -- Also the fence of the holder below.
  last_fence     bigint  not null default 0,
  -- True: `claims` has rows of this key: the waiters or, if no holder stands here, all claims.
  crowded        boolean not null default false,
  -- How the last unclean end came about, `Ended` of core/rule/claim-record.ts: id, how, cause, detail, fence, runner, until,
  -- told.
  ended          jsonb,
  -- The holder; id is null if none stands here. If the key is crowded, it holds the whole key exclusively.
  id             text,
  -- The channel its driver listens on, or empty.
  channel        text,
  ttl_ms         bigint,
  -- Null: the same as acquired_at.
  entered_at     bigint,
  acquired_at    bigint,
  last_heartbeat bigint,
  renewal_count  bigint,
  expires_at     bigint,
  runner         text,
  -- What the holder asked beyond the ordinary, in the names of the columns of `claims`.
  claim          json,
  -- Before this time no holder in `claims` is over, its grace included; null: not known.
  over_from      bigint,
  -- The latest time at which a holder in `claims` was written: only if the clock is behind it can a lease be stretched.
  seen_at        bigint,
  -- The holder in `claims` that was over at `over_from` when it was last looked at; null: not known.
  over_first     text,
  -- As `seen_at`, of the waiters in `claims` that do not want the whole key exclusively; null: not known.
  waiters_seen_at bigint,
  -- How many holders in `claims` share the whole key; null: not known. Of no matter while a holder stands here.
  shared_held    bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Columns that an earlier revision lacks.
alter table leasehold.keys add column if not exists over_from bigint, add column if not exists seen_at bigint,
  add column if not exists over_first text, add column if not exists waiters_seen_at bigint,
  add column if not exists shared_held bigint;

-- One row: which copy of the data this is, and since when. Always unlogged: whatever may lose answered claims (a crash, a
-- promotion, the restore of a base backup) then empties it.
drop table if exists leasehold.since;
create unlogged table if not exists leasehold.kept_since (
  one  boolean     primary key default true check (one),
  at   timestamptz not null default clock_timestamp(),
  copy text        not null
);

-- Arrivals are numbered across all keys.
create sequence if not exists leasehold.arrivals;

-- Holders and waiters that are not in the row of their key.
create @table@ if not exists leasehold.claims (
  key            text collate "C" not null,
  id             text collate "C" not null,
  held           boolean not null,
  -- compareRank of core/rule/claim-record.ts: the lower band goes first, and within a band the earlier arrival.
  band           integer not null,
  arrival        bigint  not null,
  -- 0 while waiting, like acquired_at.
  fence          bigint  not null,
  channel        text    not null,
  -- The ttl in force.
  ttl_ms         bigint  not null,
  entered_at     bigint  not null,
  acquired_at    bigint  not null,
  last_heartbeat bigint  not null,
  renewal_count  bigint  not null,
  expires_at     bigint  not null,
  leaving        text,
  -- The succession: how the last holder ended, what evicted it, its fence and runner.
  after          jsonb,
  -- As it was asked for.
  exclusive      boolean not null,
  share_limit    bigint,
  range_start    bigint,
  range_end      bigint,
  replaces       text,
  priority       integer not null,
  waits          boolean not null,
  -- The claim may outlive its process; a renewal may change that.
  detached       boolean not null,
  evict          text,
  stale_ms       bigint,
  grace_ms       bigint  not null,
  max_hold_ms    bigint,
  -- JSON, of which only the id matters here.
  runner         text    not null,
  -- Before this time the lease of a waiter is not over; null: not known. Mostly behind `expires_at`, since a renewal that
  -- changes an indexed column costs several times as much.
  due_at         bigint,
  -- In this order, so that no search for the claims of a key uses this index.
  primary key (id, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- A column that an earlier revision lacks.
alter table leasehold.claims add column if not exists due_at bigint;

-- Two indexes, so that whatever the planner believes of the table, holders are found without the waiters, and the first
-- waiter without the rest. A search for one claim by its id says `held::integer = 1`, which neither index serves: in a table that
-- the planner takes for empty, it would read all holders. Not unique, as they once were: two shared holders may be lifted to one fence.
do $$
begin
  if (select i.indisunique from pg_index i where i.indexrelid = to_regclass('leasehold.claims_held')) then
    drop index leasehold.claims_held, leasehold.claims_waiting;
  end if;
end
$$;
create index if not exists claims_held on leasehold.claims (key, fence) where held;
create index if not exists claims_waiting on leasehold.claims (key, band, arrival) where not held;

-- The kind of a claim, by which claims that overlap a range are found: 0 for a whole key, else 65 less the number of binary
-- digits of the range's length, so that a search looks no further back than the longest range of that kind; 100 more if the
-- claim is shared.
create or replace function leasehold.kind_of(exclusive boolean, range_start bigint, range_end bigint) returns integer
language sql immutable as $$
  select case when range_start is null then 0 else position(B'1' in (range_end - range_start)::bit(64)) end
       + case when exclusive then 0 else 100 end
$$;

-- Claims by kind, and within it by start or, of a whole key, by limit; waiters of one kind and range by rank. Not by `key` but
-- by a text made of it, so that the planner can confuse neither with the two indexes above. Waiters that want the whole key
-- exclusively are never searched for by kind.
create index if not exists claims_held_kind on leasehold.claims
  ((key || '') collate "C", leasehold.kind_of(exclusive, range_start, range_end), coalesce(range_start, share_limit)) where held;
drop index if exists leasehold.claims_waiting_kind;
create index if not exists claims_waiting_shape on leasehold.claims
  ((key || '') collate "C", leasehold.kind_of(exclusive, range_start, range_end), coalesce(range_start, share_limit),
   range_end, band, arrival)
  where not held and (range_start is not null or not exclusive);

-- The waiters that hold up everybody, by rank, and the others by the time from which their lease may be over. By another text
-- made of `key`, for the same reason.
create index if not exists claims_waiting_whole on leasehold.claims (('' || key) collate "C", band, arrival)
  where not held and range_start is null and (exclusive or share_limit is not null);
create index if not exists claims_waiting_due on leasehold.claims (('' || key) collate "C", coalesce(due_at, 0))
  where not held and (range_start is not null or not exclusive);
update leasehold.claims set due_at = expires_at where due_at is null and not held;
