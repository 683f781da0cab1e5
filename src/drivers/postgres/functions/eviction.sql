-- Who is turned out, and which conversions are refused.

-- The id of a claim's runner as JSON, which begins with it. The rest is what somebody says of himself: PostgreSQL need not
-- be able to read it.
create or replace function leasehold.runner_id(c leasehold.claims) returns text language sql immutable as $$
  select substring(c.runner from '^\{"id":("(?:[^"\\]|\\.)*")')
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
                             when 'same-runner' then leasehold.runner_id(c) = leasehold.runner_id(wanted)
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
      step := leasehold.notify(step, h, leasehold.status_of(step, h));
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
