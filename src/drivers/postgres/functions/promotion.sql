-- Who is let in.

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
          step := leasehold.notify(step, w, leasehold.absent(verdict));
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
