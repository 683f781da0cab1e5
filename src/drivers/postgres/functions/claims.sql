-- What can be said of a claim.

-- Whether a statement sees all that was committed before it has its key. Where the database's default is another isolation it
-- may not: then whoever changes `claims` writes the row of the key anew, so that one that began before fails and is sent again.
create or replace function leasehold.sees_all() returns boolean language sql stable as
  $$ select current_setting('transaction_isolation') = 'read committed' $$;

create or replace function leasehold.overlap(one leasehold.claims, other leasehold.claims) returns boolean
language sql immutable as $$
  select one.range_start is null or other.range_start is null
      or (one.range_start < other.range_end and other.range_start < one.range_end)
$$;

create or replace function leasehold.how_ended(claim leasehold.claims) returns text language sql immutable as $$
  select case when claim.expires_at >= claim.acquired_at + claim.max_hold_ms then 'max-hold' else 'expired' end
$$;

create or replace function leasehold.absent(reason text, detail text default null) returns jsonb
language sql immutable as $$
  select case when detail is null then jsonb_build_object('state', 'absent', 'reason', reason)
              else jsonb_build_object('state', 'absent', 'reason', reason, 'detail', detail) end
$$;

-- What is asked for, as a row of `claims`: the ordinary, and beyond.
create or replace function leasehold.asked_for(claim json) returns leasehold.claims language plpgsql stable as $$
declare
  c leasehold.claims;
begin
  c.exclusive := true;
  c.priority := 0;
  c.waits := true;
  c.detached := false;
  c.grace_ms := 0;
  return case when claim is null then c else json_populate_record(c, claim) end;
end
$$;

-- The holder in the row of a key as a row of `claims`.
create or replace function leasehold.lone(k leasehold.keys) returns leasehold.claims language plpgsql stable as $$
declare
  c leasehold.claims := leasehold.asked_for(k.claim);
begin
  c.key := k.key;
  c.id := k.id;
  c.held := true;
  c.band := 0;
  c.arrival := 0;
  c.fence := k.last_fence;
  c.channel := k.channel;
  c.ttl_ms := k.ttl_ms;
  c.entered_at := coalesce(k.entered_at, k.acquired_at);
  c.acquired_at := k.acquired_at;
  c.last_heartbeat := k.last_heartbeat;
  c.renewal_count := k.renewal_count;
  c.expires_at := k.expires_at;
  c.runner := k.runner;
  return c;
end
$$;

-- Whether a claim can join those who hold, some of them left out: room, none, or mismatch (they share by another
-- limit).
create or replace function leasehold.room_for(wanted leasehold.claims, without text[] default '{}') returns text
language plpgsql as $$
declare
  sharing bigint;
  excluded boolean;
  mismatched boolean;
begin
  select count(*), bool_or(h.exclusive or wanted.exclusive),
         bool_or(h.share_limit is distinct from wanted.share_limit)
    into sharing, excluded, mismatched
    from leasehold.claims h
   where h.key = wanted.key and h.held and h.id is distinct from wanted.replaces and h.id <> all (without)
     and leasehold.overlap(h, wanted);
  if excluded then return 'none'; end if;
  if mismatched then return 'mismatch'; end if;
  if sharing >= wanted.share_limit then return 'none'; end if;
  return 'room';
end
$$;

create or replace function leasehold.holds(step leasehold.step, holder text) returns boolean language plpgsql as $$
begin
  return exists (select from leasehold.claims c
                  where c.key = step.key and c.id = holder and c.held and step.now_ms < c.expires_at);
end
$$;

-- Where a claim stands, as its channel is told.
create or replace function leasehold.status_of(step leasehold.step, c leasehold.claims) returns jsonb
language plpgsql as $$
declare
  left_ms bigint := c.expires_at - step.now_ms;
  again_ms bigint := left_ms;
  ahead bigint;
begin
  if c.held then
    return jsonb_strip_nulls(jsonb_build_object('state', 'held', 'fence', c.fence, 'ttlMs', left_ms, 'leaving', c.leaving))
        || case when c.after is null then '{}'::jsonb else jsonb_build_object('after', c.after) end;
  end if;
  select count(*) into ahead from leasehold.claims w
   where w.key = c.key and not w.held and (w.band, w.arrival) < (c.band, c.arrival);
  if ahead = 0 then
    -- When the first of those in the way must be gone, or may be taken for stale.
    select least(left_ms, min(h.expires_at + h.grace_ms - step.now_ms),
                 min(case when c.evict = 'stale' then h.last_heartbeat + c.stale_ms - step.now_ms end))
      into again_ms from leasehold.claims h
     where h.key = c.key and h.held and leasehold.overlap(h, c);
    again_ms := greatest(1, again_ms);
  end if;
  return jsonb_build_object('state', 'waiting', 'ahead', ahead, 'ttlMs', left_ms, 'againMs', again_ms);
end
$$;
