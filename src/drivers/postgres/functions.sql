-- The rule of src/core/admission.ts and src/core/admission/ beside the data, revision 1. Whoever changes one changes
-- the other: the model test holds them equal. "leasehold." stands for the schema's name. Safe to run again.
--
-- `send` carries out a batch in one transaction, `claim_one`, `renew_one` and `release_one` a single request. A holder
-- that has everything is dealt with in the row of its key in `keys`, while others wait in `claims`; everything else goes
-- through `carry_out`, which works on the rows of `claims` and keeps what it has decided about the key in a `step`.

-- The database's clock. Read after the keys are locked, so that time never runs backwards between two batches.
create or replace function leasehold.clock() returns timestamptz language sql volatile as
  'select clock_timestamp()';

do $$
begin
  if to_regtype('leasehold.request') is not null then return; end if;
  create type leasehold.request as (
    op          text,
    key         text,
    id          text,
    ttl_ms      bigint,
    -- For renew the fence floor, for evict the fence of the holder.
    fence       bigint,
    reason      text,
    -- It may be dealt with in the row of its key: the only request of its key, and nothing out of the ordinary.
    plain       boolean,
    -- For claim: it neither waits nor evicts nor replaces.
    tries       boolean,
    max_hold_ms bigint,
    -- For claim: who asks; null: who asks for most of the batch.
    runner      text,
    -- For claim: what is asked beyond the ordinary, in the names of the columns of `claims`.
    claim       json,
    -- For renew: whether the claim may outlive its process from now on; null: as before.
    detached    boolean
  );
  create type leasehold.step as (
    key        text,
    now_ms     bigint,
    now_us     bigint,
    -- The id of the asking claim, and the channel of its driver.
    asked      text,
    owner      text,
    last_fence bigint,
    ended      jsonb,
    -- The asking claim, where a function looks for it.
    found      leasehold.claims,
    -- Why the asking claim is gone, if this step found or made it so.
    over       text,
    -- The asking claim has taken somebody's place.
    taken      boolean,
    -- The answer.
    standing   jsonb,
    -- What others should hear: owner, key, id, standing.
    news       jsonb[]
  );
end
$$;

-- ---- what can be said of a claim

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
  c.owner := k.owner;
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

-- Where a claim stands, as its owner is told.
create or replace function leasehold.standing_of(step leasehold.step, c leasehold.claims) returns jsonb
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

-- ---- what happens to claims

create or replace function leasehold.tell(step leasehold.step, c leasehold.claims, standing jsonb)
returns leasehold.step language plpgsql as $$
begin
  step.news := array_append(step.news, jsonb_build_object('owner', c.owner, 'key', c.key, 'id', c.id,
                                                          'standing', standing));
  return step;
end
$$;

-- Remembers an unclean end for one ttl.
create or replace function leasehold.note_end(step leasehold.step, c leasehold.claims, how text, detail text default null)
returns leasehold.step language plpgsql as $$
begin
  step.ended := jsonb_build_object('id', c.id, 'how', how, 'detail', detail, 'fence', c.fence, 'runner', c.runner,
                                   'until', step.now_ms + c.ttl_ms, 'told', false);
  return step;
end
$$;

create or replace function leasehold.evict_holder(step leasehold.step, c leasehold.claims, detail text)
returns leasehold.step language plpgsql as $$
begin
  delete from leasehold.claims where key = c.key and id = c.id;
  step := leasehold.note_end(step, c, 'evicted', detail);
  return leasehold.tell(step, c, leasehold.absent('evicted', detail));
end
$$;

-- Makes a waiter a holder. Promotion does not restart its lease.
create or replace function leasehold.let_in(step leasehold.step, c leasehold.claims) returns leasehold.step
language plpgsql as $$
begin
  if c.replaces is not null then
    delete from leasehold.claims where key = c.key and id = c.replaces and held;
  end if;
  step.last_fence := greatest(step.last_fence + 1, step.now_us);
  if step.last_fence > 9007199254740991 then
    raise numeric_value_out_of_range using message = 'A fence is beyond 2^53. Check the clock of the database.';
  end if;
  if step.ended is not null and not (step.ended ->> 'told')::boolean
     and (step.ended ->> 'id') is distinct from c.replaces then
    c.after := jsonb_build_object('how', step.ended -> 'how', 'fence', step.ended -> 'fence',
                                  'runner', step.ended -> 'runner');
    step.ended := step.ended || '{"told": true}';
  end if;
  c.held := true;
  c.fence := step.last_fence;
  c.acquired_at := step.now_ms;
  c.expires_at := least(c.expires_at, step.now_ms + c.max_hold_ms);
  update leasehold.claims
     set held = true, fence = c.fence, acquired_at = c.acquired_at, expires_at = c.expires_at, after = c.after
   where key = c.key and id = c.id;
  if c.id is distinct from step.asked then
    step := leasehold.tell(step, c, leasehold.standing_of(step, c));
  end if;
  return step;
end
$$;

-- Ends holders whose time is over and cuts leases that a clock set back would have stretched.
create or replace function leasehold.settle(step leasehold.step) returns leasehold.step language plpgsql as $$
declare
  stretched boolean;
  overdue boolean;
  c leasehold.claims;
  last leasehold.claims;
begin
  select bool_or(h.expires_at - step.now_ms > h.ttl_ms), bool_or(step.now_ms >= h.expires_at + h.grace_ms)
    into stretched, overdue from leasehold.claims h where h.key = step.key and h.held;
  if stretched then
    update leasehold.claims h
       set acquired_at = least(h.acquired_at, step.now_ms), last_heartbeat = least(h.last_heartbeat, step.now_ms),
           expires_at = least(step.now_ms + h.ttl_ms, least(h.acquired_at, step.now_ms) + h.max_hold_ms)
     where h.key = step.key and h.held and h.expires_at - step.now_ms > h.ttl_ms;
  end if;
  if not coalesce(stretched or overdue, false) then return step; end if;
  for c in delete from leasehold.claims h
            where h.key = step.key and h.held and step.now_ms >= h.expires_at + h.grace_ms returning *
  loop
    if c.id = step.asked then step.over := leasehold.how_ended(c); end if;
    if last.fence is null or c.fence > last.fence then last := c; end if;
  end loop;
  -- Of several ends the latest grant is remembered.
  if last.fence is not null then step := leasehold.note_end(step, last, leasehold.how_ended(last)); end if;
  return step;
end
$$;

-- Walks the queue and grants what conflicts with no holder and nobody ahead. Again, if a conversion left a place that
-- somebody passed may have waited for.
create or replace function leasehold.promote(step leasehold.step) returns leasehold.step language plpgsql as $$
declare
  w leasehold.claims;
  blocked leasehold.claims[];
  verdict text;
  moved boolean;
begin
  loop
    moved := false;
    blocked := '{}';
    if leasehold.held_alone(step.key) then return step; end if;
    for w in select * from leasehold.claims c where c.key = step.key and not c.held order by c.band, c.arrival loop
      if w.expires_at - step.now_ms > w.ttl_ms then
        -- Cut once and for all: cut anew at every look, a dead waiter would live until the clock has caught up.
        w.expires_at := step.now_ms + w.ttl_ms;
        w.last_heartbeat := least(w.last_heartbeat, step.now_ms);
        update leasehold.claims set expires_at = w.expires_at, last_heartbeat = w.last_heartbeat
         where key = w.key and id = w.id;
      end if;
      verdict := leasehold.judge_waiter(step, w, blocked);
      if verdict = 'room' then
        step := leasehold.let_in(step, w);
        if w.replaces is not null then moved := cardinality(blocked) > 0; end if;
        exit when leasehold.held_alone(step.key);
      elsif verdict = 'none' and w.waits then
        blocked := array_append(blocked, w);
        -- No claim at all can overtake this one.
        exit when w.range_start is null and (w.exclusive or w.share_limit is not null);
      else
        -- Who would not wait is gone again, and holds up nobody behind.
        delete from leasehold.claims where key = w.key and id = w.id;
        if w.id = step.asked then
          step.over := case verdict when 'none' then 'refused' else verdict end;
        elsif verdict <> 'expired' then
          step := leasehold.tell(step, w, leasehold.absent(verdict));
        end if;
      end if;
    end loop;
    exit when not moved;
  end loop;
  return step;
end
$$;

-- Whether somebody holds the whole key for itself.
create or replace function leasehold.held_alone(of_key text) returns boolean language plpgsql as $$
begin
  return exists (select from leasehold.claims c
                  where c.key = of_key and c.held and c.exclusive and c.range_start is null);
end
$$;

-- What becomes of the next in line: room, none, mismatch or expired.
create or replace function leasehold.judge_waiter(step leasehold.step, w leasehold.claims, blocked leasehold.claims[])
returns text language plpgsql as $$
begin
  if step.now_ms >= w.expires_at then return 'expired'; end if;
  if w.replaces is not null and not leasehold.holds(step, w.replaces) then return 'expired'; end if;
  -- Beyond exclusion, a limited claim holds up those that would take from the same limit.
  if cardinality(blocked) > 0 and exists (
    select from unnest(blocked) b
     where (b.exclusive or w.exclusive or b.share_limit is not null or w.share_limit is not null)
       and (b.range_start is null or w.range_start is null
            or (b.range_start < w.range_end and w.range_start < b.range_end))
  ) then return 'none'; end if;
  return leasehold.room_for(w);
end
$$;

-- The fewest eligible holders without whom the claim would fit, lowest priority and oldest first. None if it fits
-- already, or would not fit even without all of them: nobody is turned out for nothing.
create or replace function leasehold.make_room(step leasehold.step, wanted leasehold.claims) returns text[]
language plpgsql as $$
declare
  h leasehold.claims;
  leaving text[] := '{}';
begin
  for h in
    select * from leasehold.claims c
     where c.key = wanted.key and c.held and c.id is distinct from wanted.replaces and leasehold.overlap(c, wanted)
       and case wanted.evict when 'lower-priority' then c.priority < wanted.priority
                             when 'stale' then c.last_heartbeat <= step.now_ms - wanted.stale_ms
                             when 'same-runner' then c.runner::json ->> 'id' = wanted.runner::json ->> 'id'
                             else true end
     order by c.priority, c.fence
  loop
    exit when leasehold.room_for(wanted, leaving) = 'room';
    leaving := array_append(leaving, h.id);
  end loop;
  return case when leasehold.room_for(wanted, leaving) = 'room' then leaving else '{}' end;
end
$$;

-- Applies a claim's own rule to those in its way. `taken`: it now has their place, whoever waits.
create or replace function leasehold.apply_evict_rule(step leasehold.step, c leasehold.claims)
returns leasehold.step language plpgsql as $$
declare
  victim text;
  h leasehold.claims;
begin
  step.taken := c.evict is not null and c.evict = 'all';
  if c.evict is null then return step; end if;
  foreach victim in array leasehold.make_room(step, c) loop
    select * into h from leasehold.claims where key = c.key and id = victim;
    if c.evict <> 'lower-priority' then
      step := leasehold.evict_holder(step, h, case c.evict when 'stale' then 'stale' when 'all' then 'forced'
                                                          else 'reclaimed' end);
      step.taken := step.taken or c.evict = 'same-runner';
    elsif h.leaving is null and step.now_ms < h.expires_at then
      h.leaving := 'preempted';
      update leasehold.claims set leaving = h.leaving where key = h.key and id = h.id;
      step := leasehold.tell(step, h, leasehold.standing_of(step, h));
    end if;
  end loop;
  return step;
end
$$;

-- Why a conversion cannot be: unknown (what it replaces is not held) or deadlock (another one waits already).
create or replace function leasehold.refuse_conversion(step leasehold.step, c leasehold.claims) returns text
language plpgsql as $$
begin
  if not leasehold.holds(step, c.replaces) then return 'unknown'; end if;
  -- Each would wait for the other to give up what it holds, unless this one fits beside all that is held.
  if leasehold.room_for(c) <> 'room' and exists (
    select from leasehold.claims w join leasehold.claims h on h.key = w.key and h.id = w.replaces and h.held
     where w.key = c.key and not w.held and w.replaces is not null
       and step.now_ms < w.expires_at and step.now_ms < h.expires_at
       and (leasehold.overlap(w, c) or leasehold.overlap(h, c))
  ) then return 'deadlock'; end if;
  return null;
end
$$;

-- ---- the four requests

-- Looks for the asking claim as it counts now. A waiter whose time is over is removed.
create or replace function leasehold.find(step leasehold.step) returns leasehold.step language plpgsql as $$
declare
  c leasehold.claims;
begin
  select * into c from leasehold.claims f where f.key = step.key and f.id = step.asked;
  if not c.held and c.expires_at - step.now_ms > c.ttl_ms then
    c.expires_at := step.now_ms + c.ttl_ms;
    c.last_heartbeat := least(c.last_heartbeat, step.now_ms);
    update leasehold.claims set expires_at = c.expires_at, last_heartbeat = c.last_heartbeat
     where key = c.key and id = c.id;
  end if;
  if not c.held and step.now_ms >= c.expires_at then
    delete from leasehold.claims where key = c.key and id = c.id;
    step.over := 'expired';
    c := null;
  end if;
  step.found := c;
  return step;
end
$$;

-- For a claim that is not there: what is remembered of its end. The queue moves on all the same.
create or replace function leasehold.answer_absent(step leasehold.step) returns leasehold.step language plpgsql as $$
declare
  over text := step.over;
  ended jsonb := step.ended;
begin
  step := leasehold.promote(step);
  if over is not null then step.standing := leasehold.absent(over);
  elsif ended ->> 'id' = step.asked then step.standing := leasehold.absent(ended ->> 'how', ended ->> 'detail');
  else step.standing := leasehold.absent('unknown');
  end if;
  return step;
end
$$;

-- Lets the queue move on and tells where the asking claim came to stand.
create or replace function leasehold.settle_asking(step leasehold.step) returns leasehold.step language plpgsql as $$
declare
  c leasehold.claims;
begin
  step := leasehold.promote(step);
  select * into c from leasehold.claims f where f.key = step.key and f.id = step.asked;
  if c.id is null then
    step.standing := leasehold.absent(coalesce(step.over, 'unknown'));
  elsif not c.held and not c.waits then
    delete from leasehold.claims where key = c.key and id = c.id;
    step.standing := leasehold.absent('refused');
  else
    step.standing := leasehold.standing_of(step, c);
  end if;
  return step;
end
$$;

-- Lets the queue move on. That may put a holder's own conversion in its place: then it no longer holds.
create or replace function leasehold.unless_replaced(step leasehold.step) returns leasehold.step language plpgsql as $$
begin
  step := leasehold.promote(step);
  if step.standing ->> 'state' = 'held' and not leasehold.holds(step, step.asked) then
    step.standing := leasehold.absent('unknown');
  end if;
  return step;
end
$$;

create or replace function leasehold.claim(step leasehold.step, wanted leasehold.request) returns leasehold.step
language plpgsql as $$
declare
  c leasehold.claims;
  refusal text;
begin
  step := leasehold.find(step);
  c := step.found;
  if c.id is not null then
    -- Sent twice: answer as it stands by now.
    if not c.held then return leasehold.settle_asking(step); end if;
    step.standing := case when step.now_ms >= c.expires_at then leasehold.absent(leasehold.how_ended(c))
                          else leasehold.standing_of(step, c) end;
    return leasehold.unless_replaced(step);
  end if;
  -- A late copy of a claim that has ended does not begin it anew.
  if step.over is not null or step.ended ->> 'id' = step.asked then
    return leasehold.answer_absent(step);
  end if;
  c := leasehold.asked_for(wanted.claim);
  c.key := step.key;
  c.id := step.asked;
  c.ttl_ms := wanted.ttl_ms;
  c.max_hold_ms := wanted.max_hold_ms;
  c.runner := wanted.runner;
  if c.replaces is not null then
    refusal := leasehold.refuse_conversion(step, c);
    if refusal is not null then
      step := leasehold.promote(step);
      step.standing := leasehold.absent(refusal);
      return step;
    end if;
  elsif not c.waits and c.evict is null and leasehold.held_alone(step.key) then
    -- Not worth a row.
    step.standing := leasehold.absent('refused');
    return step;
  end if;
  c.held := false;
  c.band := case when c.replaces is null then 4000 else 0 end + 1000 - c.priority;
  c.arrival := nextval('leasehold.arrivals');
  c.fence := 0;
  c.owner := step.owner;
  c.entered_at := step.now_ms;
  c.acquired_at := 0;
  c.last_heartbeat := step.now_ms;
  c.renewal_count := 0;
  c.expires_at := step.now_ms + c.ttl_ms;
  c.stale_ms := coalesce(c.stale_ms, c.ttl_ms);
  insert into leasehold.claims select c.*;
  step := leasehold.apply_evict_rule(step, c);
  -- A conversion that fits beside the others is granted at once: its owner is in front of every waiter already.
  if step.taken or (c.replaces is not null and leasehold.room_for(c) = 'room') then
    step := leasehold.let_in(step, c);
  end if;
  return leasehold.settle_asking(step);
end
$$;

create or replace function leasehold.renew(step leasehold.step, for_ms bigint, fence_floor bigint,
                                           outlives boolean) returns leasehold.step
language plpgsql as $$
declare
  c leasehold.claims;
begin
  step := leasehold.find(step);
  c := step.found;
  if c.id is null then return leasehold.answer_absent(step); end if;
  if c.held and step.now_ms >= c.expires_at then
    -- In its grace a claim is over for its owner and still blocks others.
    step := leasehold.promote(step);
    step.standing := leasehold.absent(leasehold.how_ended(c));
    return step;
  end if;
  if c.held then c.fence := greatest(c.fence, fence_floor); end if;
  step.last_fence := greatest(step.last_fence, c.fence, fence_floor);
  -- Who was asked to leave keeps what it was promised and gets no more.
  if c.leaving is null then
    c.ttl_ms := for_ms;
    c.detached := coalesce(outlives, c.detached);
    c.last_heartbeat := step.now_ms;
    c.renewal_count := c.renewal_count + 1;
    c.expires_at := step.now_ms + for_ms;
    if c.held then c.expires_at := least(c.expires_at, c.acquired_at + c.max_hold_ms); end if;
  end if;
  c.owner := step.owner;
  update leasehold.claims
     set fence = c.fence, owner = c.owner, ttl_ms = c.ttl_ms, detached = c.detached,
         last_heartbeat = c.last_heartbeat, renewal_count = c.renewal_count, expires_at = c.expires_at
   where key = c.key and id = c.id;
  if c.held then
    step.standing := leasehold.standing_of(step, c);
    return leasehold.unless_replaced(step);
  end if;
  if c.replaces is not null and not leasehold.holds(step, c.replaces) then
    delete from leasehold.claims where key = c.key and id = c.id;
    step.over := 'expired';
  else
    step := leasehold.apply_evict_rule(step, c);
    if step.taken then step := leasehold.let_in(step, c); end if;
  end if;
  return leasehold.settle_asking(step);
end
$$;

create or replace function leasehold.release(step leasehold.step) returns leasehold.step language plpgsql as $$
declare
  c leasehold.claims;
begin
  step := leasehold.find(step);
  c := step.found;
  if c.id is null then return leasehold.answer_absent(step); end if;
  delete from leasehold.claims where key = c.key and id = c.id;
  step := leasehold.promote(step);
  step.standing := leasehold.absent(case when step.now_ms >= c.expires_at then leasehold.how_ended(c) else 'released' end);
  return step;
end
$$;

create or replace function leasehold.evict(step leasehold.step, holder_fence bigint, why text) returns leasehold.step
language plpgsql as $$
declare
  c leasehold.claims;
begin
  select * into c from leasehold.claims h where h.key = step.key and h.held and h.fence = holder_fence;
  step.standing := leasehold.absent('unknown');
  if c.id is not null then
    step := leasehold.evict_holder(step, c, why);
    step.standing := leasehold.absent('evicted', why);
  end if;
  return leasehold.promote(step);
end
$$;

-- ---- turns

-- The requests that come again and again on a key that one claim holds for itself and others wait for, without the whole
-- rule: that moves the holder to `claims` and takes long. Each answers null if it is not as simple as that.

-- The holder releases to a waiter that wants what nearly everybody wants, and whose owner is told.
create or replace function leasehold.hand_over(of_key text, holder text, sender text) returns json language plpgsql as $$
declare
  now_us bigint;
  now_ms bigint;
  minted bigint;
  in_row text;
  ends_at bigint;
  lasting_ms bigint;
  next record;
  news json;
begin
  select k.last_fence + 1, k.id, k.expires_at, k.ttl_ms into minted, in_row, ends_at, lasting_ms from leasehold.keys k
   where k.key = of_key and k.crowded and k.ended is null and k.last_fence < 9007199254740990 for no key update;
  if minted is null then return null; end if;
  now_us := extract(epoch from leasehold.clock()) * 1000000;
  now_ms := now_us / 1000;
  minted := greatest(minted, now_us);
  if in_row is null then
    select h.expires_at, h.ttl_ms into ends_at, lasting_ms from leasehold.claims h
     where h.id = holder and h.key = of_key and h.held and h.exclusive and h.range_start is null;
  elsif in_row <> holder then
    return null;
  end if;
  if (ends_at > now_ms and ends_at - now_ms <= lasting_ms) is not true then return null; end if;
  delete from leasehold.claims w
   where w.key = of_key and w.id = (select first.id from leasehold.claims first
                                     where first.key = of_key and not first.held order by first.band, first.arrival limit 1)
     and w.band = 5000 and w.exclusive and w.range_start is null and w.grace_ms = 0 and w.max_hold_ms is null
     and w.evict is null and not w.detached and w.expires_at > now_ms and w.expires_at - now_ms <= w.ttl_ms
  returning w.id, w.owner, w.ttl_ms, w.entered_at, w.last_heartbeat, w.renewal_count, w.expires_at, w.runner into next;
  if not found then return null; end if;
  if in_row is null then delete from leasehold.claims h where h.id = holder and h.key = of_key; end if;
  update leasehold.keys k
     set last_fence = minted, id = next.id, owner = next.owner, ttl_ms = next.ttl_ms, entered_at = next.entered_at,
         acquired_at = now_ms, last_heartbeat = next.last_heartbeat, renewal_count = next.renewal_count,
         expires_at = next.expires_at, runner = next.runner, claim = null
   where k.key = of_key;
  news := json_build_object('key', of_key, 'id', next.id, 'standing',
    json_build_object('state', 'held', 'fence', minted, 'ttlMs', next.expires_at - now_ms));
  if next.owner = sender then return json_build_object('released', true, 'news', json_build_array(news)); end if;
  perform leasehold.call(next.owner, news);
  return '{"released": true}';
end
$$;

-- A newcomer that wants what nearly everybody wants queues. Whoever calls this has tried for the key, and so locked it.
create or replace function leasehold.queue_up(of_key text, of_id text, for_ms bigint, who text, sender text)
returns json language plpgsql as $$
declare
  now_ms bigint := (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000;
  was_crowded boolean;
  free_at bigint;
  ahead bigint;
begin
  select k.crowded, k.expires_at + coalesce((k.claim ->> 'grace_ms')::bigint, 0),
         (select count(*) from leasehold.claims w where w.key = of_key and not w.held and w.band <= 5000)
    into was_crowded, free_at, ahead from leasehold.keys k
   where k.key = of_key and k.id <> of_id and (k.ended ->> 'id') is distinct from of_id
     and (k.claim ->> 'exclusive') is null and (k.claim ->> 'range_start') is null
     and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms;
  if not found then return null; end if;
  insert into leasehold.claims (key, id, held, band, arrival, fence, owner, ttl_ms, entered_at, acquired_at,
                                last_heartbeat, renewal_count, expires_at, exclusive, priority, waits, detached,
                                stale_ms, grace_ms, runner)
  values (of_key, of_id, false, 5000, nextval('leasehold.arrivals'), 0, sender, for_ms, now_ms, 0, now_ms, 0,
          now_ms + for_ms, true, 0, true, false, for_ms, 0, who)
      on conflict do nothing;
  -- Sent twice.
  if not found then return null; end if;
  if not was_crowded then update leasehold.keys k set crowded = true where k.key = of_key; end if;
  return json_build_object('ahead', ahead, 'ttlMs', for_ms, 'againMs',
    case when ahead > 0 then for_ms else greatest(1, least(for_ms, free_at - now_ms)) end);
end
$$;

-- One of the two, if the request is one.
create or replace function leasehold.take_turn(request leasehold.request, sender text) returns json
language plpgsql as $$
begin
  return case
    when request.op = 'release' then leasehold.hand_over(request.key, request.id, sender)
    when request.op = 'claim' and request.claim is null
      then leasehold.queue_up(request.key, request.id, request.ttl_ms, request.runner, sender)
  end;
end
$$;

-- One request by the rows of `claims`, its key locked. Returns its standing, and adds to the news. `loose`: nothing was
-- promised that a crash must not undo.
create or replace function leasehold.carry_out(request leasehold.request, sender text, inout news jsonb[],
                                               out standing jsonb, out loose boolean)
language plpgsql as $$
declare
  k leasehold.keys;
  step leasehold.step;
  occupied boolean;
begin
  select * into k from leasehold.keys f where f.key = request.key for no key update;
  loose := false;
  if k.key is null and request.op <> 'claim' then
    standing := leasehold.absent('unknown');
    return;
  elsif k.key is null then
    insert into leasehold.keys (key) values (request.key) on conflict (key) do nothing;
    select * into k from leasehold.keys f where f.key = request.key for no key update;
  end if;
  if k.id is not null then insert into leasehold.claims select (leasehold.lone(k)).*; end if;
  -- Read the clock once the key is ours: time then never runs backwards from one step to the next.
  step.now_us := extract(epoch from leasehold.clock()) * 1000000;
  step.now_ms := step.now_us / 1000;
  step.key := request.key;
  step.asked := request.id;
  step.owner := sender;
  step.last_fence := k.last_fence;
  step.ended := case when step.now_ms < (k.ended ->> 'until')::bigint then k.ended end;
  step.news := news;
  step := leasehold.settle(step);
  case request.op
    when 'claim' then step := leasehold.claim(step, request);
    when 'renew' then step := leasehold.renew(step, request.ttl_ms, request.fence, request.detached);
    when 'release' then step := leasehold.release(step);
    when 'evict' then step := leasehold.evict(step, request.fence, request.reason);
  end case;
  -- Who waits has been promised nothing: a crash costs it its place.
  loose := cardinality(step.news) = cardinality(news) and step.standing ->> 'state' = 'waiting' and request.fence is null;
  news := step.news;
  standing := step.standing;
  occupied := exists (select from leasehold.claims c where c.key = request.key and c.held)
           or exists (select from leasehold.claims c where c.key = request.key and not c.held);
  if k.id is not null or occupied <> k.crowded or step.last_fence <> k.last_fence
     or step.ended is distinct from k.ended then
    update leasehold.keys f
       set last_fence = step.last_fence, ended = step.ended, crowded = occupied, id = null, owner = null,
           entered_at = null, runner = null, claim = null
     where f.key = request.key;
  end if;
end
$$;

-- ---- what drivers call

-- A single plain request, for the driver that listens on channel `sender`. Returns `fence` and `leftMs` if it holds now,
-- `released`, or how many are `ahead`; else as `send`. The settings are for the planner, who knows nothing of tables that
-- are empty in one moment and full in the next.

create or replace function leasehold.claim_one(of_key text, of_id text, for_ms bigint, who text, sender text, wanted json)
returns json language plpgsql set enable_seqscan = off as $$
declare
  -- See `send`.
  now_us bigint := extract(epoch from leasehold.clock()) * 1000000;
  now_ms bigint := now_us / 1000;
  minted bigint;
  left_ms bigint;
  answer json;
begin
  insert into leasehold.keys as k (key, last_fence, id, owner, ttl_ms, acquired_at, last_heartbeat, renewal_count,
                                   expires_at, runner, claim)
  values (of_key, now_us, of_id, sender, for_ms, now_ms, now_ms, 0,
          now_ms + least(for_ms, (wanted ->> 'max_hold_ms')::bigint), who, wanted)
      on conflict (key) do update
     set last_fence = greatest(k.last_fence + 1, now_us), ended = null, id = excluded.id, owner = excluded.owner,
         ttl_ms = excluded.ttl_ms, acquired_at = now_ms, last_heartbeat = now_ms, renewal_count = 0,
         expires_at = excluded.expires_at, runner = excluded.runner, claim = excluded.claim
   where k.id is null and not k.crowded and k.last_fence < 9007199254740990
     and (k.ended is null or (k.ended ->> 'until')::bigint <= now_ms)
  returning k.last_fence, k.expires_at - now_ms into minted, left_ms;
  if minted is not null then return json_build_object('fence', minted, 'leftMs', left_ms); end if;
  if wanted is null then
    answer := leasehold.queue_up(of_key, of_id, for_ms, who, sender);
    if answer is not null then
      -- Who waits has been promised nothing: a crash costs it its place.
      perform set_config('synchronous_commit', 'off', true);
      return answer;
    end if;
  end if;
  return leasehold.attend(
    row('claim', of_key, of_id, for_ms, null, null, true, (wanted ->> 'waits') = 'false' and (wanted ->> 'evict') is null,
        (wanted ->> 'max_hold_ms')::bigint, who, wanted, null), now_ms, sender);
end
$$;

create or replace function leasehold.renew_one(of_key text, of_id text, for_ms bigint, sender text) returns json
language plpgsql set enable_seqscan = off as $$
declare
  now_ms bigint := (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000;
  kept bigint;
  left_ms bigint;
begin
  update leasehold.keys k
     set owner = sender, ttl_ms = for_ms, last_heartbeat = now_ms, renewal_count = k.renewal_count + 1,
         expires_at = least(now_ms + for_ms, k.acquired_at + (k.claim ->> 'max_hold_ms')::bigint)
   where k.key = of_key and k.id = of_id and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms
  returning k.last_fence, k.expires_at - now_ms into kept, left_ms;
  if kept is not null then return json_build_object('fence', kept, 'leftMs', left_ms); end if;
  return leasehold.attend(
    row('renew', of_key, of_id, for_ms, null, null, true, false, null, null, null, null), now_ms, sender);
end
$$;

create or replace function leasehold.release_one(of_key text, of_id text, sender text) returns json
language plpgsql set enable_seqscan = off as $$
declare
  now_ms bigint := (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000;
begin
  update leasehold.keys k set id = null, owner = null, runner = null, claim = null
   where k.key = of_key and k.id = of_id and not k.crowded
     and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms;
  if found then return '{"released": true}'; end if;
  return coalesce(leasehold.hand_over(of_key, of_id, sender), leasehold.attend(
    row('release', of_key, of_id, null, null, null, true, false, null, null, null, null), now_ms, sender));
end
$$;

-- The answer to a single request that is none of the simple ones.
create or replace function leasehold.attend(request leasehold.request, now_ms bigint, sender text) returns json
language plpgsql as $$
declare
  standing jsonb;
  loose boolean;
  news jsonb[] := '{}';
begin
  if request.op = 'claim' and request.tries and leasehold.refuses(request, now_ms) then
    standing := leasehold.absent('refused');
  else
    select c.news, c.standing, c.loose into news, standing, loose from leasehold.carry_out(request, sender, news) c;
  end if;
  -- Those behind it need not wait for the disk.
  if loose then perform set_config('synchronous_commit', 'off', true); end if;
  return json_build_object('rest', json_build_array(standing), 'news', leasehold.spread(news, sender));
end
$$;

-- Carries out a batch (an array of `request`, keys in order) in one transaction, for the driver that listens on channel
-- `sender`. The last four count the requests, and those of them that are plain.
-- Returns what became of plain requests by their keys: `held` with `fences` and `leftMs`, and `released`; the standings
-- of all others in their order as `rest`, or what a single request would be told; and `news` of the sender's own claims. Other
-- owners are notified.
create or replace function leasehold.send(batch json, usual_runner text, sender text, requests integer,
                                          plain_claims integer, plain_renewals integer, plain_releases integer)
returns json language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  -- Read before any key is locked, which is good enough for a lone holder: a time in the past promises nobody more, and
  -- nobody else's lease is judged by it.
  now_us bigint := extract(epoch from leasehold.clock()) * 1000000;
  now_ms bigint := now_us / 1000;
  held text[];
  fences bigint[];
  left_ms bigint[];
  renewed record;
  released text[];
  done text[];
  request leasehold.request;
  answer json;
  rest json[] := '{}';
  news jsonb[] := '{}';
begin
  if requests > 1 and requests > plain_claims then
    -- Keys are locked in one order everywhere, so that no two batches wait for each other.
    perform from rows from (json_to_recordset(batch) as (key text)) with ordinality as r (key, place)
            join leasehold.keys k on k.key = r.key collate "C" order by r.place for no key update of k;
  end if;
  if plain_claims > 0 then
    -- Nobody is here and no unclean end is to be told: granted.
    with granted as (
      insert into leasehold.keys as k (key, last_fence, id, owner, ttl_ms, acquired_at, last_heartbeat, renewal_count,
                                       expires_at, runner, claim)
      select r.key, now_us, r.id, sender, r.ttl_ms, now_ms, now_ms, 0, now_ms + least(r.ttl_ms, r.max_hold_ms),
             coalesce(r.runner, usual_runner), r.claim
        from json_populate_recordset(null::leasehold.request, batch) r where r.plain and r.op = 'claim'
          on conflict (key) do update
         set last_fence = greatest(k.last_fence + 1, now_us), ended = null, id = excluded.id, owner = excluded.owner,
             ttl_ms = excluded.ttl_ms, acquired_at = now_ms, last_heartbeat = now_ms, renewal_count = 0,
             expires_at = excluded.expires_at, runner = excluded.runner, claim = excluded.claim
       where k.id is null and not k.crowded and k.last_fence < 9007199254740990
         and (k.ended is null or (k.ended ->> 'until')::bigint <= now_ms)
      returning k.key, k.last_fence, k.expires_at - now_ms as left_ms
    ) select array_agg(g.key), array_agg(g.last_fence), array_agg(g.left_ms) into held, fences, left_ms from granted g;
  end if;
  if plain_renewals > 0 then
    with kept as (
      update leasehold.keys k
         set owner = sender, ttl_ms = r.ttl_ms, last_heartbeat = now_ms, renewal_count = k.renewal_count + 1,
             expires_at = least(now_ms + r.ttl_ms, k.acquired_at + (k.claim ->> 'max_hold_ms')::bigint)
        from json_populate_recordset(null::leasehold.request, batch) r
       where r.plain and r.op = 'renew' and k.key = r.key collate "C" and k.id = r.id
         and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms
      returning k.key, k.last_fence, k.expires_at - now_ms as left_ms
    ) select array_agg(n.key) as keys, array_agg(n.last_fence) as fences, array_agg(n.left_ms) as left_ms
        into renewed from kept n;
    held := held || renewed.keys;
    fences := fences || renewed.fences;
    left_ms := left_ms || renewed.left_ms;
  end if;
  if plain_releases > 0 then
    with freed as (
      update leasehold.keys k set id = null, owner = null, runner = null, claim = null
        from json_populate_recordset(null::leasehold.request, batch) r
       where r.plain and r.op = 'release' and k.key = r.key collate "C" and k.id = r.id and not k.crowded
         and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms
      returning k.key
    ) select array_agg(f.key) into released from freed f;
  end if;
  done := coalesce(held || released, held, released, '{}');
  if cardinality(done) < requests then
    for request in select * from json_populate_recordset(null::leasehold.request, batch) r
                    where r.plain is not true or r.key <> all (done) loop
      request.runner := coalesce(request.runner, usual_runner);
      answer := case when request.plain then leasehold.take_turn(request, sender) end;
      if answer is null and request.op = 'claim' and request.tries and leasehold.refuses(request, now_ms) then
        answer := leasehold.absent('refused');
      elsif answer is null then
        select c.news, c.standing into news, answer from leasehold.carry_out(request, sender, news) c;
      end if;
      rest := array_append(rest, answer);
    end loop;
  end if;
  return json_build_object('held', held, 'fences', fences, 'leftMs', left_ms, 'released', released, 'rest', rest,
                           'news', case when cardinality(news) > 0 then leasehold.spread(news, sender) end);
end
$$;

-- Whether a lone holder of everything, whose time is not over, is there: then there is nothing to write.
create or replace function leasehold.refuses(request leasehold.request, now_ms bigint) returns boolean
language plpgsql as $$
begin
  return exists (
    select from leasehold.keys k
     where k.key = request.key and k.id <> request.id and (k.ended ->> 'id') is distinct from request.id
       and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms
       and coalesce((k.claim ->> 'exclusive')::boolean, true) and (k.claim ->> 'range_start') is null);
end
$$;

-- Sends news of a claim to the channel of its owner. A notification has at most 8000 bytes; without its standing it says:
-- ask.
create or replace function leasehold.call(owner text, news json) returns void language sql volatile as $$
  select pg_notify(owner, case when octet_length(news::text) < 7900 then news
                               else json_build_object('key', news -> 'key', 'id', news -> 'id') end ::text)
$$;

-- Sends news to the channels of its owners, and returns what is for the sender itself.
create or replace function leasehold.spread(news jsonb[], sender text) returns json language plpgsql as $$
declare
  one jsonb;
  own json[] := '{}';
begin
  foreach one in array news loop
    if one ->> 'owner' = sender then
      own := array_append(own, (one - 'owner')::json);
    elsif one ->> 'owner' <> '' then
      perform leasehold.call(one ->> 'owner', (one - 'owner')::json);
    end if;
  end loop;
  return array_to_json(own);
end
$$;

-- One page of keys with claims, in the order of their bytes: the clock, then each key with its claims.
create or replace function leasehold.page(only_key text, prefix text, behind text, keys_max integer) returns json
language sql volatile as $$
  with page as (
    select * from leasehold.keys k
     where (k.id is not null or k.crowded) and (only_key is null or k.key = only_key)
       and k.key > behind collate "C" and k.key >= prefix collate "C" and k.key < prefix || chr(1114111) collate "C"
     order by k.key limit keys_max
  ), found as (
    select (leasehold.lone(p)).* from page p where p.id is not null
    union all
    select c.* from page p join leasehold.claims c on c.key = p.key and c.held where p.crowded
    union all
    select c.* from page p join leasehold.claims c on c.key = p.key and not c.held where p.crowded
  )
  select json_build_object(
    'now', (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000,
    'claims', coalesce((select json_agg(f order by f.key, f.held desc, f.band, f.arrival) from found f), '[]'))
$$;

-- Forgets keys that nobody has asked for since an hour: the clock is then past every fence they minted.
-- Returns how many.
create or replace function leasehold.tidy(keys_max integer) returns bigint language plpgsql as $$
declare
  now_us bigint := extract(epoch from leasehold.clock()) * 1000000;
  hour_ago_us bigint := now_us - 3600000000;
  forgotten bigint;
  abandoned text;
begin
  for abandoned in
    select k.key from leasehold.keys k
     where k.crowded and k.last_fence < hour_ago_us
       and (k.id is null or k.expires_at + coalesce((k.claim ->> 'grace_ms')::bigint, 0) < hour_ago_us / 1000)
       and not exists (select from leasehold.claims c
                        where c.key = k.key and c.held and c.expires_at + c.grace_ms > hour_ago_us / 1000)
       and not exists (select from leasehold.claims c
                        where c.key = k.key and not c.held and c.expires_at > hour_ago_us / 1000)
     order by k.key limit keys_max for update skip locked
  loop
    delete from leasehold.claims c where c.key = abandoned and c.held;
    delete from leasehold.claims c where c.key = abandoned and not c.held;
    update leasehold.keys k set crowded = false, id = null, entered_at = null where k.key = abandoned;
  end loop;
  delete from leasehold.keys where key in (
    select k.key from leasehold.keys k
     where not k.crowded and k.last_fence < hour_ago_us
       and (k.id is null or k.expires_at + coalesce((k.claim ->> 'grace_ms')::bigint, 0) < hour_ago_us / 1000)
       and (k.ended is null or (k.ended ->> 'until')::bigint < now_us / 1000)
     order by k.key limit keys_max for update skip locked);
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
