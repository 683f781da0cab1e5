-- Which waiters are granted, and which holders are evicted: the copy in SQL of core/rule/promotion.ts, function by function.
-- The fence is minted as by nextFence in core/rule/fence.ts.

-- Walks the queue and grants what conflicts with no holder and no waiter ahead. Walks once more if a granted conversion has
-- left a place that a waiter already passed may have waited for. Waiters that an overlapping holder surely keeps waiting are
-- passed over by the statement that reads the queue.
create or replace function leasehold.promote(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  w leasehold.claims;
  kinds integer[];
  -- The place of the last waiter that was looked at.
  band_passed integer := -1;
  arrival_passed bigint := -1;
  decision text;
  stopped boolean;
  once_more boolean := false;
begin
  loop
    stopped := true;
    if leasehold.held_alone(draft.key) then return draft; end if;
    kinds := leasehold.held_kinds(draft.key);
    for w in
      select * from leasehold.claims c
       where c.key = draft.key and not c.held and (c.band, c.arrival) > (band_passed, arrival_passed)
         and (c.range_start is null or c.replaces is not null or not c.waits
              or draft.now_ms >= c.expires_at or c.expires_at - draft.now_ms > c.ttl_ms
              or not (c.exclusive and 100 = any (kinds) or exists (
                select from unnest(kinds) n (kind) join leasehold.claims h
                    on (h.key || '') collate "C" = draft.key and h.held
                   and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = n.kind
                   and coalesce(h.range_start, h.share_limit) > leasehold.earliest(c.range_start, n.kind)
                   and coalesce(h.range_start, h.share_limit) < c.range_end
                 where n.kind not in (0, 100) and (n.kind < 100 or c.exclusive) and h.range_end > c.range_start)))
       order by c.band, c.arrival
    loop
      if w.expires_at - draft.now_ms > w.ttl_ms then
        -- Store the cut: cut anew at every reading, a dead waiter would live until the clock has caught up.
        w.expires_at := draft.now_ms + w.ttl_ms;
        w.last_heartbeat := least(w.last_heartbeat, draft.now_ms);
        update leasehold.claims set expires_at = w.expires_at, last_heartbeat = w.last_heartbeat
         where key = w.key and id = w.id;
      end if;
      decision := leasehold.judge_waiter(draft, w);
      if decision = 'room' then
        draft := leasehold.grant(draft, w);
        if leasehold.held_alone(draft.key) and w.replaces is null then exit; end if;
        if w.replaces is not null then
          -- The holder that it replaced is gone: read the queue again, from here on.
          once_more := once_more or leasehold.waits_before(w);
          stopped := leasehold.held_alone(draft.key);
          band_passed := w.band;
          arrival_passed := w.arrival;
          exit;
        end if;
      elsif decision = 'none' and w.waits then
        -- holdsUpEverybody: no claim can overtake this one.
        exit when w.range_start is null and (w.exclusive or w.share_limit is not null);
      else
        -- A claim that does not wait leaves at once, and blocks no waiter behind it.
        delete from leasehold.claims where key = w.key and id = w.id;
        if w.id = draft.subject_id then
          draft.drop_reason := case decision when 'none' then 'refused' else decision end;
        elsif decision <> 'expired' then
          draft := leasehold.notify(draft, w, leasehold.absent_status(decision));
        end if;
      end if;
    end loop;
    if stopped then
      exit when not once_more;
      once_more := false;
      band_passed := -1;
      arrival_passed := -1;
    end if;
  end loop;
  return draft;
end
$$;

-- Whether a waiter ranks before this claim.
create or replace function leasehold.waits_before(c leasehold.claims) returns boolean language plpgsql as $$
begin
  return exists (select from leasehold.claims w
                  where w.key = c.key and not w.held and (w.band, w.arrival) < (c.band, c.arrival));
end
$$;

-- Makes a waiter, or a newcomer, a holder. Promotion does not restart its lease.
create or replace function leasehold.grant(draft leasehold.draft, c leasehold.claims) returns leasehold.draft
language plpgsql as $$
declare
  replaced leasehold.claims;
begin
  if c.replaces is not null then
    delete from leasehold.claims where key = c.key and id = c.replaces and held returning * into replaced;
  end if;
  draft.last_fence := greatest(draft.last_fence + 1, draft.fence_floor);
  -- FENCE_MAX
  if draft.last_fence > 9007199254740991 then
    raise numeric_value_out_of_range using message = 'A fence is beyond 2^53. Check the clock of the database.';
  end if;
  if draft.ended is not null and not (draft.ended ->> 'told')::boolean
     and (draft.ended ->> 'id') is distinct from c.replaces then
    c.after := jsonb_build_object('how', draft.ended -> 'how', 'fence', draft.ended -> 'fence',
                                  'runner', draft.ended -> 'runner');
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
  draft.over_from := least(draft.over_from, c.expires_at + c.grace_ms);
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

-- What becomes of the next waiter: room (granted), none (it waits), mismatch or expired (it leaves).
create or replace function leasehold.judge_waiter(draft leasehold.draft, w leasehold.claims) returns text
language plpgsql as $$
begin
  if draft.now_ms >= w.expires_at then return 'expired'; end if;
  if w.replaces is not null and not leasehold.holds(draft, w.replaces) then return 'expired'; end if;
  if leasehold.held_up(w) then return 'none'; end if;
  return leasehold.room_for(w);
end
$$;

-- Whether a waiter ahead stands in the way (standsInTheWay): beyond exclusion, a limited claim holds up those that would take
-- from the same limit. A waiter that holds up everybody has ended the walk before.
create or replace function leasehold.held_up(w leasehold.claims) returns boolean language plpgsql as $$
declare
  kind integer;
begin
  if not leasehold.waits_before(w) then return false; end if;
  foreach kind in array leasehold.waiting_kinds(w.key) loop
    if w.range_start is null or kind = 100 then
      if exists (
        select from leasehold.claims b
         where (b.key || '') collate "C" = w.key and not b.held and (b.range_start is not null or not b.exclusive)
           and leasehold.kind_of(b.exclusive, b.range_start, b.range_end) = kind
           and (b.band, b.arrival) < (w.band, w.arrival)
           and (b.exclusive or w.exclusive or b.share_limit is not null or w.share_limit is not null)
      ) then return true; end if;
    elsif exists (
      select from leasehold.claims b
       where (b.key || '') collate "C" = w.key and not b.held and (b.range_start is not null or not b.exclusive)
         and leasehold.kind_of(b.exclusive, b.range_start, b.range_end) = kind
         and coalesce(b.range_start, b.share_limit) > leasehold.earliest(w.range_start, kind)
         and coalesce(b.range_start, b.share_limit) < w.range_end
         and b.range_end > w.range_start and (b.band, b.arrival) < (w.band, w.arrival)
         and (b.exclusive or w.exclusive or b.share_limit is not null or w.share_limit is not null)
    ) then return true; end if;
  end loop;
  return false;
end
$$;

-- The id of a claim's runner, as JSON: its first field. PostgreSQL may not be able to read the rest, which is the caller's.
create or replace function leasehold.runner_id(c leasehold.claims) returns text language sql immutable as $$
  select substring(c.runner from '^\{"id":("(?:[^"\\]|\\.)*")')
$$;

-- Ends a holder at once, against its will.
create or replace function leasehold.evict_holder(draft leasehold.draft, c leasehold.claims, detail text)
returns leasehold.draft language plpgsql as $$
begin
  delete from leasehold.claims where key = c.key and id = c.id;
  draft := leasehold.note_end(draft, c, 'evicted', detail);
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
    exit when leasehold.room_for(claim, leaving) = 'room';
    leaving := array_append(leaving, h.id);
  end loop;
  return case when leasehold.room_for(claim, leaving) = 'room' then leaving else '{}' end;
end
$$;

-- Applies a claim's evict rule to the holders in its way. `taken`: the claim takes their place, ahead of all waiters.
create or replace function leasehold.apply_evict_rule(draft leasehold.draft, c leasehold.claims)
returns leasehold.draft language plpgsql as $$
declare
  victim text;
  h leasehold.claims;
begin
  draft.taken := c.evict is not null and c.evict = 'all';
  if c.evict is null then return draft; end if;
  foreach victim in array leasehold.make_room(draft, c) loop
    select * into h from leasehold.claims where key = c.key and id = victim;
    if c.evict <> 'lower-priority' then
      draft := leasehold.evict_holder(draft, h, case c.evict when 'stale' then 'stale' when 'all' then 'forced'
                                                          else 'reclaimed' end);
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
