-- What advisory locks need beside themselves, format 1. "leasehold." stands for the schema's name. Safe to run again.
-- The locks are the server's own and survive nothing, so neither do these tables: unlogged.

create schema if not exists leasehold;

-- Every grant draws its fence here, once it holds the lock. Fences start at the wall clock in microseconds: a crash may have
-- lost the last ones drawn, and a restore may have brought back older ones.
create sequence if not exists leasehold.advisory_fences;

-- Which name a 64-bit hash stands for: to tell two names with one hash apart, and for people.
create unlogged table if not exists leasehold.advisory_names (
  hash    bigint primary key,
  key     text collate "C" not null,
  seen_at timestamptz not null default now()
);

-- The runner of each session, for people.
create unlogged table if not exists leasehold.advisory_sessions (
  process_id integer     not null,
  started_at timestamptz not null,
  runner     text        not null,
  primary key (process_id, started_at)
);

-- What owners wait for, and hold meanwhile, so that clients find deadlocks: sessions only try for locks, so the server sees no
-- wait. A client writes here only while such a wait is long. A wait counts as true from `since` to `until`.
create unlogged table if not exists leasehold.advisory_waits (
  client     text        not null,
  id         text        not null,
  wait       text        not null,
  entered_at timestamptz not null,
  since      timestamptz not null,
  until      timestamptz,
  seen_at    timestamptz not null,
  primary key (client, id)
);

-- One row: in which copy of the database locks are taken, and since when. All that ends every session empties it, except a
-- clean restart.
drop table if exists leasehold.advisory_since;
create unlogged table if not exists leasehold.advisory_kept_since (
  one  boolean     primary key default true check (one),
  at   timestamptz not null default clock_timestamp(),
  copy text        not null
);

-- For how many milliseconds the server can have lost no lock. Its uptime is not enough: if a process of the server crashes,
-- all sessions end while it stays up, and a standby that takes over has been up and knows no locks.
create or replace function leasehold.advisory_kept_for_ms() returns double precision language plpgsql as $$
declare
  this_copy text := leasehold.copy_of(array['leasehold.advisory_kept_since']::regclass[]);
  since timestamptz;
begin
  select k.at into since from leasehold.advisory_kept_since k where k.copy = this_copy;
  if since is null then
    insert into leasehold.advisory_kept_since as k (copy) values (this_copy)
        on conflict (one) do update set at = clock_timestamp(), copy = excluded.copy where k.copy <> excluded.copy;
    return 0;
  end if;
  return greatest(0, extract(epoch from clock_timestamp() - greatest(since, pg_postmaster_start_time())) * 1000);
end
$$;

-- Lifts the sequence of fences to at least a number. No session draws meanwhile: advisory_draw shares the guard, the
-- advisory lock 7240618953042.
create or replace function leasehold.advisory_lift(at_least bigint) returns void language plpgsql as $$
begin
  -- Other sessions rely on the new value: it must outlive a crash.
  perform set_config('synchronous_commit', 'on', true);
  perform pg_advisory_xact_lock(7240618953042);
  if (select last_value < at_least from leasehold.advisory_fences) then
    perform setval('leasehold.advisory_fences', at_least);
  end if;
end
$$;

-- The next fence: past all that were drawn, and past the clock. If the sequence is behind the clock, lift it 10 ms (10000)
-- ahead, so that most draws need not. A transaction takes the guard once, shared or exclusive: two that upgraded it would
-- deadlock.
create or replace function leasehold.advisory_draw() returns bigint language plpgsql as $$
declare
  now_us bigint := extract(epoch from clock_timestamp()) * 1000000;
begin
  if (select last_value >= now_us from leasehold.advisory_fences) then
    perform pg_advisory_xact_lock_shared(7240618953042);
  else
    perform pg_advisory_xact_lock(7240618953042);
    now_us := extract(epoch from clock_timestamp()) * 1000000;
    if (select last_value < now_us from leasehold.advisory_fences) then
      perform setval('leasehold.advisory_fences', now_us + 10000);
    end if;
  end if;
  return nextval('leasehold.advisory_fences');
end
$$;

-- Replaces the waits of a client, and gives those of all clients that were published in the last 10 seconds, a thousand at
-- most. `until` is the time before last: a client that publishes a wait again has seen that it lasted until then.
create or replace function leasehold.advisory_share_waits(of_client text, waits text)
returns table (now_ms double precision, client text, wait text, entered_ms double precision, since_ms double precision, until_ms double precision)
language plpgsql as $$
begin
  delete from leasehold.advisory_waits w
   where w.client = of_client and w.id not in (select p ->> 'id' from json_array_elements(waits::json) as p)
      or w.seen_at < clock_timestamp() - interval '10 seconds';
  insert into leasehold.advisory_waits as w (client, id, wait, entered_at, since, until, seen_at)
  select of_client, p ->> 'id', p::text, clock_timestamp(), clock_timestamp(), null, clock_timestamp()
    from json_array_elements(waits::json) as p
      on conflict on constraint advisory_waits_pkey do update
     set wait = excluded.wait,
         since = case when w.wait = excluded.wait then w.since else excluded.since end,
         until = case when w.wait = excluded.wait then w.seen_at end,
         seen_at = excluded.seen_at;
  return query
  select extract(epoch from clock_timestamp())::double precision * 1000, w.client, w.wait,
         extract(epoch from w.entered_at)::double precision * 1000,
         extract(epoch from w.since)::double precision * 1000,
         coalesce(extract(epoch from w.until)::double precision * 1000, 0)
    from leasehold.advisory_waits w
   order by w.seen_at desc
   limit 1000;
end
$$;

-- Begins a session of ours: marked by `nonce`, ended by the server after `idle_ms` of silence, its fences above all that
-- were drawn before. Forgets sessions that have ended and names that are no longer locked.
create or replace function leasehold.advisory_begin(nonce text, idle_ms bigint) returns void language plpgsql as $$
begin
  perform set_config('leasehold.session', nonce, false);
  perform set_config('synchronous_commit', 'off', false);
  if current_setting('server_version_num')::integer >= 140000 then
    perform set_config('idle_session_timeout', idle_ms::text, false);
  else
    -- Before PostgreSQL 14: TCP keepalives notice a machine that is gone, though not a process that stands still.
    perform set_config('tcp_keepalives_idle', greatest(1, idle_ms / 2000)::text, false);
    perform set_config('tcp_keepalives_interval', greatest(1, idle_ms / 6000)::text, false);
    perform set_config('tcp_keepalives_count', '3', false);
  end if;
  perform leasehold.advisory_lift((extract(epoch from clock_timestamp()) * 1000000)::bigint);
  delete from leasehold.advisory_sessions s
   where not exists (select from pg_stat_activity a where a.pid = s.process_id and a.backend_start = s.started_at);
  delete from leasehold.advisory_names n
   where n.seen_at < now() - interval '1 hour' and not exists (
     select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1
        and (l.classid::bigint << 32 | l.objid::bigint) = n.hash);
end
$$;
