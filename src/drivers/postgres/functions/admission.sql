-- Who may hold a key: the copy in SQL of core/rule/admission.ts, function by function.

-- A new claim, or one that is sent again.
create or replace function leasehold.claim_place(draft leasehold.draft, request leasehold.request) returns leasehold.draft
language plpgsql as $$
declare
  c leasehold.claims;
  refusal text;
begin
  draft := leasehold.find(draft);
  c := draft.subject;
  if c.id is not null then
    -- askAgain: a claim that is sent twice is answered with its status by now.
    if not c.held then return leasehold.settle_subject(draft); end if;
    draft.status := case when draft.now_ms >= c.expires_at then leasehold.absent_status(leasehold.how_ended(c))
                          else leasehold.claim_status_of(draft, c) end;
    return leasehold.unless_replaced(draft);
  end if;
  -- A late copy of a claim that has ended does not begin it anew.
  if draft.drop_reason is not null or draft.ended ->> 'id' = draft.subject_id then
    return leasehold.answer_absent(draft);
  end if;
  c := leasehold.asked_for(request.claim);
  c.key := draft.key;
  c.id := draft.subject_id;
  c.ttl_ms := request.ttl_ms;
  c.max_hold_ms := request.max_hold_ms;
  c.runner := request.runner;
  if c.replaces is not null then
    refusal := leasehold.refuse_conversion(draft, c);
    if refusal is not null then
      draft := leasehold.promote(draft);
      draft.status := leasehold.absent_status(refusal);
      return draft;
    end if;
  elsif not c.waits and c.evict is null and leasehold.held_alone(draft.key) then
    -- Refused without writing a row.
    draft.status := leasehold.absent_status('refused');
    return draft;
  end if;
  c.held := false;
  -- compareRank: conversions from 0 to 2000, others from 4000 to 6000, higher priority first.
  c.band := case when c.replaces is null then 4000 else 0 end + 1000 - c.priority;
  c.arrival := nextval('leasehold.arrivals');
  c.fence := 0;
  c.channel := draft.channel;
  c.entered_at := draft.now_ms;
  c.acquired_at := 0;
  c.last_heartbeat := draft.now_ms;
  c.renewal_count := 0;
  c.expires_at := draft.now_ms + c.ttl_ms;
  c.stale_ms := coalesce(c.stale_ms, c.ttl_ms);
  c.due_at := c.expires_at;
  insert into leasehold.claims select c.*;
  if c.waits then draft := leasehold.note_waiter(draft, c); end if;
  draft := leasehold.apply_evict_rule(draft, c);
  -- A conversion that fits beside the other holders is granted at once: its owner ranks before every waiter already.
  if draft.taken or (c.replaces is not null and (leasehold.room_for(c, draft.shared_held)).room = 'room') then
    draft := leasehold.grant(draft, c);
  end if;
  return leasehold.settle_subject(draft);
end
$$;

-- Why a conversion is refused: unknown (the claim it replaces is not held) or deadlock (another conversion waits for it);
-- null if it is not.
create or replace function leasehold.refuse_conversion(draft leasehold.draft, c leasehold.claims) returns text
language plpgsql as $$
begin
  if not leasehold.holds(draft, c.replaces) then return 'unknown'; end if;
  -- Each would wait for the other's lease, unless this one fits beside all holders.
  if (leasehold.room_for(c, draft.shared_held)).room <> 'room' and exists (
    select from leasehold.claims w join leasehold.claims h on h.key = w.key and h.id = w.replaces and h.held::integer = 1
     -- Conversions rank first: see the bands of `claim_place`.
     where w.key = c.key and not w.held and w.band <= 2000 and w.replaces is not null
       and draft.now_ms < w.expires_at and draft.now_ms < h.expires_at
       and (leasehold.overlaps(w, c) or leasehold.overlaps(h, c))
  ) then return 'deadlock'; end if;
  return null;
end
$$;

-- renewHolder: renews a holder whose lease is not over, and touches no other claim. Leaves the status null if there is none.
create or replace function leasehold.renew_holder(draft leasehold.draft, for_ms bigint, fence_floor bigint,
                                                  outlives boolean) returns leasehold.draft
language plpgsql as $$
declare
  c leasehold.claims;
begin
  select * into c from leasehold.claims f where f.id = draft.subject_id and f.key = draft.key and f.held::integer = 1;
  if c.id is null or draft.now_ms >= c.expires_at then return draft; end if;
  if c.expires_at - draft.now_ms > c.ttl_ms then
    -- judge: the clock was set back.
    c.acquired_at := least(c.acquired_at, draft.now_ms);
    c.last_heartbeat := least(c.last_heartbeat, draft.now_ms);
    c.expires_at := least(draft.now_ms + c.ttl_ms, c.acquired_at + c.max_hold_ms);
    if draft.now_ms >= c.expires_at then return draft; end if;
  end if;
  c.fence := greatest(c.fence, fence_floor);
  draft.last_fence := greatest(draft.last_fence, c.fence);
  -- A holder that was asked to leave keeps its lease and is not given more.
  if c.leaving is null then
    c.ttl_ms := for_ms;
    c.detached := coalesce(outlives, c.detached);
    c.last_heartbeat := draft.now_ms;
    c.renewal_count := c.renewal_count + 1;
    c.expires_at := least(draft.now_ms + for_ms, c.acquired_at + c.max_hold_ms);
  end if;
  update leasehold.claims
     set fence = c.fence, channel = draft.channel, ttl_ms = c.ttl_ms, detached = c.detached, acquired_at = c.acquired_at,
         last_heartbeat = c.last_heartbeat, renewal_count = c.renewal_count, expires_at = c.expires_at
   where key = c.key and id = c.id;
  -- A shorter ttl may end it sooner. What is not known stays so.
  if c.expires_at + c.grace_ms < draft.over_from then
    draft.over_from := c.expires_at + c.grace_ms;
    draft.over_first := c.id;
  end if;
  draft.seen_at := greatest(draft.seen_at, draft.now_ms);
  draft.status := leasehold.claim_status_of(draft, c);
  return draft;
end
$$;

-- Renews a waiter, or answers for a claim that is absent or over.
create or replace function leasehold.renew(draft leasehold.draft, for_ms bigint, fence_floor bigint,
                                           outlives boolean) returns leasehold.draft
language plpgsql as $$
declare
  c leasehold.claims;
begin
  draft := leasehold.find(draft);
  c := draft.subject;
  if c.id is null then return leasehold.answer_absent(draft); end if;
  if c.held and draft.now_ms >= c.expires_at then
    -- overForOwner: in its grace a claim is over for its owner, and still blocks others.
    draft := leasehold.promote(draft);
    draft.status := leasehold.absent_status(leasehold.how_ended(c));
    return draft;
  end if;
  draft.last_fence := greatest(draft.last_fence, fence_floor);
  c.ttl_ms := for_ms;
  c.detached := coalesce(outlives, c.detached);
  c.last_heartbeat := draft.now_ms;
  c.renewal_count := c.renewal_count + 1;
  c.expires_at := draft.now_ms + for_ms;
  c.channel := draft.channel;
  -- Moved in time, and not at every renewal.
  if c.due_at > c.expires_at or c.due_at - draft.now_ms < for_ms / 2 then c.due_at := c.expires_at; end if;
  update leasehold.claims
     set channel = c.channel, ttl_ms = c.ttl_ms, detached = c.detached, last_heartbeat = c.last_heartbeat,
         renewal_count = c.renewal_count, expires_at = c.expires_at, due_at = c.due_at
   where key = c.key and id = c.id;
  draft := leasehold.note_waiter(draft, c);
  if c.replaces is not null and not leasehold.holds(draft, c.replaces) then
    delete from leasehold.claims where key = c.key and id = c.id;
    draft := leasehold.touch(draft, c, leasehold.place_of(c.band, c.arrival));
    draft.drop_reason := 'expired';
  else
    draft := leasehold.apply_evict_rule(draft, c);
    if draft.taken then draft := leasehold.grant(draft, c); end if;
  end if;
  return leasehold.settle_subject(draft);
end
$$;

-- Ends a claim, held or waiting (letGo).
create or replace function leasehold.release(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  c leasehold.claims;
begin
  draft := leasehold.find(draft);
  c := draft.subject;
  if c.id is null then return leasehold.answer_absent(draft); end if;
  delete from leasehold.claims where key = c.key and id = c.id;
  if c.held then draft := leasehold.count_holder(draft, c, -1); end if;
  draft := leasehold.touch(draft, c, case when c.held then -1 else leasehold.place_of(c.band, c.arrival) end);
  draft := leasehold.promote(draft);
  draft.status := leasehold.absent_status(case when draft.now_ms >= c.expires_at then leasehold.how_ended(c) else 'released' end);
  return draft;
end
$$;

-- Ends a waiting claim. A claim that is held by now stays, and is answered as such.
create or replace function leasehold.withdraw(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  c leasehold.claims;
begin
  draft := leasehold.find(draft);
  c := draft.subject;
  if c.held is not true then return leasehold.release(draft); end if;
  draft.status := case when draft.now_ms >= c.expires_at then leasehold.absent_status(leasehold.how_ended(c))
                        else leasehold.claim_status_of(draft, c) end;
  return leasehold.unless_replaced(draft);
end
$$;

-- Ends the holder with this fence.
create or replace function leasehold.evict_fence(draft leasehold.draft, holder_fence bigint, why text) returns leasehold.draft
language plpgsql as $$
declare
  c leasehold.claims;
begin
  select * into c from leasehold.claims h where h.key = draft.key and h.held and h.fence = holder_fence;
  draft.status := leasehold.absent_status('unknown');
  if c.id is not null then
    draft := leasehold.evict_holder(draft, c, 'operator', why);
    draft.status := leasehold.absent_status('evicted', why);
  end if;
  return leasehold.promote(draft);
end
$$;

-- The answer for a claim that is not there: what is remembered of its end. Waiters are promoted all the same.
create or replace function leasehold.answer_absent(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  over text := draft.drop_reason;
  ended jsonb := draft.ended;
begin
  draft := leasehold.promote(draft);
  if over is not null then draft.status := leasehold.absent_status(over);
  elsif ended ->> 'id' = draft.subject_id then draft.status := leasehold.absent_status(ended ->> 'how', ended ->> 'detail');
  else draft.status := leasehold.absent_status('unknown');
  end if;
  return draft;
end
$$;

-- Promotes waiters. If that granted the conversion of this very holder, the claim no longer holds.
create or replace function leasehold.unless_replaced(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
begin
  draft := leasehold.promote(draft);
  if draft.status ->> 'state' = 'held' and not leasehold.holds(draft, draft.subject_id) then
    draft.status := leasehold.absent_status('unknown');
  end if;
  return draft;
end
$$;

-- Carries out one request on the rows of `claims`, its key locked. Returns its status, and adds to the notifications.
-- `loose`: a crash may undo all that it changed.
create or replace function leasehold.admit(request leasehold.request, sender text, inout notifications jsonb[],
                                               out status jsonb, out loose boolean)
language plpgsql as $$
declare
  k leasehold.keys;
  draft leasehold.draft;
  occupied boolean;
begin
  select * into k from leasehold.keys f where f.key = request.key for no key update;
  loose := false;
  if k.key is null and request.op <> 'claim' then
    status := leasehold.absent_status('unknown');
    return;
  elsif k.key is null then
    insert into leasehold.keys (key) values (request.key) on conflict (key) do nothing;
    select * into k from leasehold.keys f where f.key = request.key for no key update;
  end if;
  if k.id is not null then insert into leasehold.claims select (leasehold.holder_in_row(k)).*; end if;
  -- Read the clock once the key is locked: time then never runs backwards from one request to the next.
  draft.fence_floor := extract(epoch from leasehold.clock()) * 1000000;
  draft.now_ms := draft.fence_floor / 1000;
  draft.key := request.key;
  draft.subject_id := request.id;
  draft.channel := sender;
  draft.last_fence := k.last_fence;
  draft.ended := case when draft.now_ms < (k.ended ->> 'until')::bigint then k.ended end;
  draft.notifications := notifications;
  if k.id is null then
    draft.over_from := k.over_from;
    draft.seen_at := k.seen_at;
    draft.over_first := k.over_first;
  end if;
  draft.waiters_seen_at := k.waiters_seen_at;
  if k.id is not null or not k.crowded then
    draft.shared_held := (coalesce(k.claim ->> 'exclusive', 'true') = 'false' and (k.claim ->> 'range_start') is null)::integer;
  elsif k.shared_held is not null then
    draft.shared_held := k.shared_held;
  else
    select count(*) into draft.shared_held from leasehold.claims h
     where (h.key || '') collate "C" = request.key and h.held
       and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = 100;
  end if;
  if request.op = 'renew' then
    draft := leasehold.renew_holder(draft, request.ttl_ms, request.fence, request.detached);
  end if;
  if draft.status is null then draft := leasehold.settle_holders(draft); end if;
  case request.op
    when 'claim' then draft := leasehold.claim_place(draft, request);
    when 'renew' then
      if draft.status is null then
        draft := leasehold.renew(draft, request.ttl_ms, request.fence, request.detached);
      end if;
    when 'release' then draft := leasehold.release(draft);
    when 'withdraw' then draft := leasehold.withdraw(draft);
    when 'evict' then draft := leasehold.evict_fence(draft, request.fence, request.reason);
  end case;
  -- A waiter was promised nothing: a crash may cost it its place.
  loose := cardinality(draft.notifications) = cardinality(notifications) and draft.status ->> 'state' = 'waiting' and request.fence is null;
  notifications := draft.notifications;
  status := draft.status;
  occupied := exists (select from leasehold.claims c where c.key = request.key and c.held)
           or exists (select from leasehold.claims c where c.key = request.key and not c.held);
  if k.id is not null or occupied <> k.crowded or draft.last_fence <> k.last_fence
     or draft.ended is distinct from k.ended or draft.over_from is distinct from k.over_from
     or draft.seen_at is distinct from k.seen_at or draft.over_first is distinct from k.over_first
     or draft.waiters_seen_at is distinct from k.waiters_seen_at
     or draft.shared_held is distinct from k.shared_held or not leasehold.sees_all() then
    update leasehold.keys f
       set last_fence = draft.last_fence, ended = draft.ended, crowded = occupied, id = null, channel = null,
           entered_at = null, runner = null, claim = null, over_from = draft.over_from, seen_at = draft.seen_at,
           over_first = draft.over_first, waiters_seen_at = draft.waiters_seen_at, shared_held = draft.shared_held
     where f.key = request.key;
  end if;
end
$$;
