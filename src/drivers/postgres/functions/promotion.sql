-- Which waiters are granted, and which holders are evicted: the copy in SQL of core/rule/promotion.ts, function by function.
-- The fence is minted as by nextFence in core/rule/fence.ts.

-- Makes a waiter, or a newcomer, a holder. Promotion does not restart its lease.
create or replace function leasehold.grant(draft leasehold.draft, c leasehold.claims) returns leasehold.draft
language plpgsql as $$
declare
  replaced leasehold.claims;
begin
  if c.replaces is not null then
    delete from leasehold.claims where key = c.key and id = c.replaces and held::integer = 1 returning * into replaced;
    if found then
      draft := leasehold.count_holder(draft, replaced, -1);
      draft := leasehold.touch(draft, replaced);
    end if;
  end if;
  draft := leasehold.count_holder(draft, c, 1);
  draft.granted := null;
  draft := leasehold.touch(draft, c);
  draft.last_fence := greatest(draft.last_fence + 1, draft.fence_floor);
  -- FENCE_MAX
  if draft.last_fence > 9007199254740991 then
    raise numeric_value_out_of_range using message = 'A fence is beyond 2^53. Check the clock of the database.';
  end if;
  if draft.ended is not null and not (draft.ended ->> 'told')::boolean
     and (draft.ended ->> 'id') is distinct from c.replaces then
    -- An earlier revision noted no cause.
    c.after := jsonb_strip_nulls(jsonb_build_object('how', draft.ended -> 'how', 'cause', draft.ended -> 'cause',
                                                    'fence', draft.ended -> 'fence', 'runner', draft.ended -> 'runner'));
    draft.ended := draft.ended || '{"told": true}';
  end if;
  c.held := true;
  c.fence := draft.last_fence;
  c.acquired_at := draft.now_ms;
  if c.waits and replaced.expires_at > c.expires_at then
    -- Until its owner hears of the grant, it trusts the lease that it had.
    c.expires_at := replaced.expires_at;
    c.ttl_ms := replaced.ttl_ms;
  end if;
  c.expires_at := least(c.expires_at, draft.now_ms + c.max_hold_ms);
  update leasehold.claims
     set held = true, fence = c.fence, acquired_at = c.acquired_at, expires_at = c.expires_at, ttl_ms = c.ttl_ms,
         after = c.after
   where key = c.key and id = c.id;
  if draft.over_from is null or c.expires_at + c.grace_ms < draft.over_from then
    draft.over_from := c.expires_at + c.grace_ms;
    draft.over_first := c.id;
  end if;
  draft.seen_at := draft.now_ms;
  if c.id is distinct from draft.subject_id then
    draft := leasehold.notify(draft, c, leasehold.claim_status_of(draft, c));
  end if;
  return draft;
end
$$;

-- Whether one claim holds the whole key exclusively.
create or replace function leasehold.held_alone(of_key text) returns boolean language plpgsql as $$
begin
  return exists (select from leasehold.claims c
                  where (c.key || '') collate "C" = of_key and c.held
                    and leasehold.kind_of(c.exclusive, c.range_start, c.range_end) = 0);
end
$$;

-- The id of a claim's runner, as JSON: its first field. PostgreSQL may not be able to read the rest, which is the caller's.
create or replace function leasehold.runner_id(c leasehold.claims) returns text language sql immutable as $$
  select substring(c.runner from '^\{"id":("(?:[^"\\]|\\.)*")')
$$;

-- Ends a holder at once, against its will.
create or replace function leasehold.evict_holder(draft leasehold.draft, c leasehold.claims, cause text, detail text)
returns leasehold.draft language plpgsql as $$
begin
  delete from leasehold.claims where key = c.key and id = c.id;
  draft := leasehold.count_holder(draft, c, -1);
  draft := leasehold.touch(draft, c);
  draft := leasehold.note_end(draft, c, 'evicted', cause, detail);
  return leasehold.notify(draft, c, leasehold.absent_status('evicted', detail));
end
$$;

-- The fewest eligible holders without whom the claim would fit, lowest priority and oldest first. None if the claim fits
-- already, or would not fit even without all of them.
create or replace function leasehold.make_room(draft leasehold.draft, claim leasehold.claims) returns text[]
language plpgsql as $$
declare
  h leasehold.claims;
  leaving text[] := '{}';
begin
  for h in
    select * from leasehold.claims c
     where c.key = claim.key and c.held and c.id is distinct from claim.replaces and leasehold.overlaps(c, claim)
       and case claim.evict when 'lower-priority' then c.priority < claim.priority
                             when 'stale' then c.last_heartbeat <= draft.now_ms - claim.stale_ms
                             when 'same-runner' then leasehold.runner_id(c) = leasehold.runner_id(claim)
                             else true end
     order by c.priority, c.fence
  loop
    exit when (leasehold.room_for(claim, draft.shared_held, leaving)).room = 'room';
    leaving := array_append(leaving, h.id);
  end loop;
  return case when (leasehold.room_for(claim, draft.shared_held, leaving)).room = 'room' then leaving else '{}' end;
end
$$;

-- Applies a claim's evict rule to the holders in its way. `taken`: the claim takes their place, ahead of all waiters.
create or replace function leasehold.apply_evict_rule(draft leasehold.draft, c leasehold.claims)
returns leasehold.draft language plpgsql as $$
declare
  victim text;
  h leasehold.claims;
  cause text := case c.evict when 'stale' then 'stale' when 'same-runner' then 'reclaimed' when 'all' then 'forced' end;
begin
  draft.taken := c.evict is not null and c.evict = 'all';
  if c.evict is null then return draft; end if;
  foreach victim in array leasehold.make_room(draft, c) loop
    select * into h from leasehold.claims where key = c.key and id = victim;
    if c.evict <> 'lower-priority' then
      draft := leasehold.evict_holder(draft, h, cause, cause);
      draft.taken := draft.taken or c.evict = 'same-runner';
    elsif h.leaving is null and draft.now_ms < h.expires_at then
      h.leaving := 'preempted';
      update leasehold.claims set leaving = h.leaving where key = h.key and id = h.id;
      draft := leasehold.notify(draft, h, leasehold.claim_status_of(draft, h));
    end if;
  end loop;
  return draft;
end
$$;
