-- The requests, by the whole rule.

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
  if over is not null then step.status := leasehold.absent(over);
  elsif ended ->> 'id' = step.asked then step.status := leasehold.absent(ended ->> 'how', ended ->> 'detail');
  else step.status := leasehold.absent('unknown');
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
    step.status := leasehold.absent(coalesce(step.over, 'unknown'));
  elsif not c.held and not c.waits then
    delete from leasehold.claims where key = c.key and id = c.id;
    step.status := leasehold.absent('refused');
  else
    step.status := leasehold.status_of(step, c);
  end if;
  return step;
end
$$;

-- Lets the queue move on. That may put a holder's own conversion in its place: then it no longer holds.
create or replace function leasehold.unless_replaced(step leasehold.step) returns leasehold.step language plpgsql as $$
begin
  step := leasehold.promote(step);
  if step.status ->> 'state' = 'held' and not leasehold.holds(step, step.asked) then
    step.status := leasehold.absent('unknown');
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
    step.status := case when step.now_ms >= c.expires_at then leasehold.absent(leasehold.how_ended(c))
                          else leasehold.status_of(step, c) end;
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
      step.status := leasehold.absent(refusal);
      return step;
    end if;
  elsif not c.waits and c.evict is null and leasehold.held_alone(step.key) then
    -- Not worth a row.
    step.status := leasehold.absent('refused');
    return step;
  end if;
  c.held := false;
  c.band := case when c.replaces is null then 4000 else 0 end + 1000 - c.priority;
  c.arrival := nextval('leasehold.arrivals');
  c.fence := 0;
  c.channel := step.channel;
  c.entered_at := step.now_ms;
  c.acquired_at := 0;
  c.last_heartbeat := step.now_ms;
  c.renewal_count := 0;
  c.expires_at := step.now_ms + c.ttl_ms;
  c.stale_ms := coalesce(c.stale_ms, c.ttl_ms);
  insert into leasehold.claims select c.*;
  step := leasehold.apply_evict_rule(step, c);
  -- A conversion that fits beside the others is granted at once: its channel is in front of every waiter already.
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
    -- In its grace a claim is over for its channel and still blocks others.
    step := leasehold.promote(step);
    step.status := leasehold.absent(leasehold.how_ended(c));
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
  c.channel := step.channel;
  update leasehold.claims
     set fence = c.fence, channel = c.channel, ttl_ms = c.ttl_ms, detached = c.detached,
         last_heartbeat = c.last_heartbeat, renewal_count = c.renewal_count, expires_at = c.expires_at
   where key = c.key and id = c.id;
  if c.held then
    step.status := leasehold.status_of(step, c);
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
  step.status := leasehold.absent(case when step.now_ms >= c.expires_at then leasehold.how_ended(c) else 'released' end);
  return step;
end
$$;

-- Leaves the queue, unless it was too late for that.
create or replace function leasehold.withdraw(step leasehold.step) returns leasehold.step language plpgsql as $$
declare
  c leasehold.claims;
begin
  step := leasehold.find(step);
  c := step.found;
  if c.held is not true then return leasehold.release(step); end if;
  step.status := case when step.now_ms >= c.expires_at then leasehold.absent(leasehold.how_ended(c))
                        else leasehold.status_of(step, c) end;
  return leasehold.unless_replaced(step);
end
$$;

create or replace function leasehold.evict(step leasehold.step, holder_fence bigint, why text) returns leasehold.step
language plpgsql as $$
declare
  c leasehold.claims;
begin
  select * into c from leasehold.claims h where h.key = step.key and h.held and h.fence = holder_fence;
  step.status := leasehold.absent('unknown');
  if c.id is not null then
    step := leasehold.evict_holder(step, c, why);
    step.status := leasehold.absent('evicted', why);
  end if;
  return leasehold.promote(step);
end
$$;

-- One request by the rows of `claims`, its key locked. Returns its status, and adds to the notifications. `loose`: nothing was
-- promised that a crash must not undo.
create or replace function leasehold.carry_out(request leasehold.request, sender text, inout notifications jsonb[],
                                               out status jsonb, out loose boolean)
language plpgsql as $$
declare
  k leasehold.keys;
  step leasehold.step;
  occupied boolean;
begin
  select * into k from leasehold.keys f where f.key = request.key for no key update;
  loose := false;
  if k.key is null and request.op <> 'claim' then
    status := leasehold.absent('unknown');
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
  step.channel := sender;
  step.last_fence := k.last_fence;
  step.ended := case when step.now_ms < (k.ended ->> 'until')::bigint then k.ended end;
  step.notifications := notifications;
  step := leasehold.settle(step);
  case request.op
    when 'claim' then step := leasehold.claim(step, request);
    when 'renew' then step := leasehold.renew(step, request.ttl_ms, request.fence, request.detached);
    when 'release' then step := leasehold.release(step);
    when 'withdraw' then step := leasehold.withdraw(step);
    when 'evict' then step := leasehold.evict(step, request.fence, request.reason);
  end case;
  -- Who waits has been promised nothing: a crash costs it its place.
  loose := cardinality(step.notifications) = cardinality(notifications) and step.status ->> 'state' = 'waiting' and request.fence is null;
  notifications := step.notifications;
  status := step.status;
  occupied := exists (select from leasehold.claims c where c.key = request.key and c.held)
           or exists (select from leasehold.claims c where c.key = request.key and not c.held);
  if k.id is not null or occupied <> k.crowded or step.last_fence <> k.last_fence
     or step.ended is distinct from k.ended or not leasehold.sees_all() then
    update leasehold.keys f
       set last_fence = step.last_fence, ended = step.ended, crowded = occupied, id = null, channel = null,
           entered_at = null, runner = null, claim = null
     where f.key = request.key;
  end if;
end
$$;
