-- The two most common requests on a key that one claim holds for itself and others wait for, as a shortcut of the rule: that
-- moves the holder to `claims` and takes long. Each function answers null where the rule must decide. No copy of a part of
-- the rule.

-- The holder releases, and the first waiter, a plain one, is granted and notified.
create or replace function leasehold.hand_over(of_key text, holder text, sender text) returns json language plpgsql as $$
declare
  now_us bigint;
  now_ms bigint;
  minted bigint;
  in_row text;
  ends_at bigint;
  lasting_ms bigint;
  next record;
  notifications json;
begin
  select k.last_fence + 1, k.id, k.expires_at, k.ttl_ms into minted, in_row, ends_at, lasting_ms from leasehold.keys k
   where k.key = of_key and k.crowded and k.ended is null and k.last_fence < 9007199254740990 /* FENCE_MAX - 1 */ for no key update;
  if minted is null then return null; end if;
  now_us := extract(epoch from leasehold.clock()) * 1000000;
  now_ms := now_us / 1000;
  minted := greatest(minted, now_us);
  if in_row is null then
    select h.expires_at, h.ttl_ms into ends_at, lasting_ms from leasehold.claims h
     where h.id = holder and h.key = of_key and h.held::integer = 1 and h.exclusive and h.range_start is null;
  elsif in_row <> holder then
    return null;
  end if;
  if (ends_at > now_ms and ends_at - now_ms <= lasting_ms) is not true then return null; end if;
  delete from leasehold.claims w
   where w.key = of_key and w.id = (select first.id from leasehold.claims first
                                     where first.key = of_key and not first.held order by first.band, first.arrival limit 1)
     and w.band = 5000 /* PLAIN_BAND */ and w.exclusive and w.range_start is null and w.grace_ms = 0 and w.max_hold_ms is null
     and w.evict is null and not w.detached and w.expires_at > now_ms and w.expires_at - now_ms <= w.ttl_ms
  returning w.id, w.channel, w.ttl_ms, w.entered_at, w.last_heartbeat, w.renewal_count, w.expires_at, w.runner into next;
  if not found then return null; end if;
  if in_row is null then delete from leasehold.claims h where h.id = holder and h.key = of_key; end if;
  update leasehold.keys k
     set last_fence = minted, id = next.id, channel = next.channel, ttl_ms = next.ttl_ms, entered_at = next.entered_at,
         acquired_at = now_ms, last_heartbeat = next.last_heartbeat, renewal_count = next.renewal_count,
         expires_at = next.expires_at, runner = next.runner, claim = null
   where k.key = of_key;
  notifications := json_build_object('key', of_key, 'id', next.id, 'status',
    json_build_object('state', 'held', 'fence', minted, 'ttlMs', next.expires_at - now_ms));
  if next.channel = sender then return json_build_object('released', true, 'notifications', json_build_array(notifications)); end if;
  perform leasehold.notify_channel(next.channel, notifications);
  return '{"released": true}';
end
$$;

-- A plain claim queues up. The caller has tried to take the key, and so has locked it.
create or replace function leasehold.queue_up(of_key text, of_id text, for_ms bigint, of_runner text, sender text)
returns json language plpgsql as $$
declare
  now_ms bigint := (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000;
  was_crowded boolean;
  free_at bigint;
  ahead bigint;
begin
  select k.crowded, k.expires_at + coalesce((k.claim ->> 'grace_ms')::bigint, 0),
         -- As answer_waiter counts, up to a thousand.
         (select count(*) from (
            select from leasehold.claims w
             where w.key = of_key and not w.held and w.band <= 5000 /* PLAIN_BAND */ limit 1000) first_waiters)
    into was_crowded, free_at, ahead from leasehold.keys k
   where k.key = of_key and k.id <> of_id and (k.ended ->> 'id') is distinct from of_id
     and (k.claim ->> 'exclusive') is null and (k.claim ->> 'range_start') is null
     and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms;
  if not found then return null; end if;
  insert into leasehold.claims (key, id, held, band, arrival, fence, channel, ttl_ms, entered_at, acquired_at,
                                last_heartbeat, renewal_count, expires_at, exclusive, priority, waits, detached,
                                stale_ms, grace_ms, runner)
  values (of_key, of_id, false, 5000 /* PLAIN_BAND */, nextval('leasehold.arrivals'), 0, sender, for_ms, now_ms, 0, now_ms, 0,
          now_ms + for_ms, true, 0, true, false, for_ms, 0, of_runner)
      on conflict do nothing;
  -- A claim that is sent twice is stored already.
  if not found then return null; end if;
  if not was_crowded or not leasehold.sees_all() then update leasehold.keys k set crowded = true where k.key = of_key; end if;
  return json_build_object('ahead', ahead, 'ttlMs', for_ms, 'againMs',
    case when ahead > 0 then for_ms else greatest(1, least(for_ms, free_at - now_ms)) end);
end
$$;

-- The shortcut for a request, if there is one.
create or replace function leasehold.take_shortcut(request leasehold.request, sender text) returns json
language plpgsql as $$
begin
  return case
    when request.op = 'release' then leasehold.hand_over(request.key, request.id, sender)
    when request.op = 'claim' and request.claim is null
      then leasehold.queue_up(request.key, request.id, request.ttl_ms, request.runner, sender)
  end;
end
$$;
