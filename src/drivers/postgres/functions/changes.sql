-- What happens to claims.

create or replace function leasehold.notify(step leasehold.step, c leasehold.claims, status jsonb)
returns leasehold.step language plpgsql as $$
begin
  step.notifications := array_append(step.notifications, jsonb_build_object('channel', c.channel, 'key', c.key, 'id', c.id,
                                                          'status', status));
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
  return leasehold.notify(step, c, leasehold.absent('evicted', detail));
end
$$;

-- Makes a waiter a holder. Promotion does not restart its lease.
create or replace function leasehold.let_in(step leasehold.step, c leasehold.claims) returns leasehold.step
language plpgsql as $$
declare
  replaced leasehold.claims;
begin
  if c.replaces is not null then
    delete from leasehold.claims where key = c.key and id = c.replaces and held returning * into replaced;
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
  if c.waits and replaced.expires_at > c.expires_at then
    -- Until its channel hears of this, which may be late, it trusts the lease that it had.
    c.expires_at := replaced.expires_at;
    c.ttl_ms := replaced.ttl_ms;
  end if;
  c.expires_at := least(c.expires_at, step.now_ms + c.max_hold_ms);
  update leasehold.claims
     set held = true, fence = c.fence, acquired_at = c.acquired_at, expires_at = c.expires_at, ttl_ms = c.ttl_ms,
         after = c.after
   where key = c.key and id = c.id;
  if c.id is distinct from step.asked then
    step := leasehold.notify(step, c, leasehold.status_of(step, c));
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
