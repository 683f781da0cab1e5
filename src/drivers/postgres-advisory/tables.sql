-- What advisory locks need beside themselves, format 1. "leasehold." stands for the schema's name. Safe to run again.
-- The locks are the server's own and survive nothing, so neither do these tables: unlogged.

create schema if not exists leasehold;

-- Every grant draws its fence here, while it holds, from the wall clock in microseconds on: a crash may have lost the last
-- ones drawn, and a restore may have brought back older ones.
create sequence if not exists leasehold.advisory_fences;

-- Which name a 64-bit key stands for, to notify two names with one key apart, and for people.
create unlogged table if not exists leasehold.advisory_names (
  hash    bigint primary key,
  key     text collate "C" not null,
  seen_at timestamptz not null default now()
);

-- Who is behind a session, for people.
create unlogged table if not exists leasehold.advisory_sessions (
  process_id integer     not null,
  started_at timestamptz not null,
  runner     text        not null,
  primary key (process_id, started_at)
);

-- One row: in which copy of the database locks are taken, and since when. What ends all sessions empties it, but for a clean
-- restart.
drop table if exists leasehold.advisory_since;
create unlogged table if not exists leasehold.advisory_kept_since (
  one  boolean     primary key default true check (one),
  at   timestamptz not null default clock_timestamp(),
  copy text        not null
);

-- For how long no lock can have been lost by the server, in milliseconds. If one of its processes crashes, all sessions end,
-- and it still counts as up; a standby that takes over has been up and knows no locks.
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

-- Lifts the sequence of fences to at least a number. Nobody draws meanwhile: who draws shares the guard.
create or replace function leasehold.advisory_lift(at_least bigint) returns void language plpgsql as $$
begin
  -- Told to others on the strength of this: it must outlive a crash.
  perform set_config('synchronous_commit', 'on', true);
  perform pg_advisory_xact_lock(7240618953042);
  if (select last_value < at_least from leasehold.advisory_fences) then
    perform setval('leasehold.advisory_fences', at_least);
  end if;
end
$$;

-- The next fence: past all that were drawn, and past the clock. Whoever finds the sequence behind the clock lifts it 10 ms ahead,
-- so that most draws need not. The guard is taken once a transaction, shared or not: two that both wanted more than they
-- have would deadlock.
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

-- Makes this session ours: known by `nonce`, ended by the server after `idle_ms` of silence, and with fences above all
-- that were drawn before. Forgets what is no longer true.
create or replace function leasehold.advisory_begin(nonce text, idle_ms bigint) returns void language plpgsql as $$
begin
  perform set_config('leasehold.session', nonce, false);
  perform set_config('synchronous_commit', 'off', false);
  if current_setting('server_version_num')::integer >= 140000 then
    perform set_config('idle_session_timeout', idle_ms::text, false);
  else
    -- The next best: at least a machine that is gone is noticed. One that stands still is not.
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
