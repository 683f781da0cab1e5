-- What drivers call. No copy of a part of the rule.
--
-- `claim_one`, `renew_one` and `release_one` carry out a single plain request, for the driver that listens on channel
-- `sender`. They return `fence` and `leftMs` if the claim holds now, `released`, or how many are `ahead`; else as `send`. The
-- settings are for the planner, which knows nothing of tables that are empty in one moment and full in the next.

create or replace function leasehold.claim_one(of_key text, of_id text, for_ms bigint, of_runner text, sender text, wanted json)
returns json language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  -- See `send`.
  now_us bigint := extract(epoch from leasehold.clock()) * 1000000;
  now_ms bigint := now_us / 1000;
  minted bigint;
  left_ms bigint;
  answer json;
begin
  insert into leasehold.keys as k (key, last_fence, id, channel, ttl_ms, acquired_at, last_heartbeat, renewal_count,
                                   expires_at, runner, claim)
  values (of_key, now_us, of_id, sender, for_ms, now_ms, now_ms, 0,
          now_ms + least(for_ms, (wanted ->> 'max_hold_ms')::bigint), of_runner, wanted)
      on conflict (key) do update
     set last_fence = greatest(k.last_fence + 1, now_us), ended = null, id = excluded.id, channel = excluded.channel,
         ttl_ms = excluded.ttl_ms, acquired_at = now_ms, last_heartbeat = now_ms, renewal_count = 0,
         expires_at = excluded.expires_at, runner = excluded.runner, claim = excluded.claim
   where k.id is null and not k.crowded and k.last_fence < 9007199254740990 /* FENCE_MAX - 1 */
     and (k.ended is null or (k.ended ->> 'until')::bigint <= now_ms)
  returning k.last_fence, k.expires_at - now_ms into minted, left_ms;
  if minted is not null then return json_build_object('fence', minted, 'leftMs', left_ms); end if;
  if wanted is null then
    answer := leasehold.queue_up(of_key, of_id, for_ms, of_runner, sender);
    if answer is not null then
      -- A waiter was promised nothing: a crash may cost it its place.
      perform set_config('synchronous_commit', 'off', true);
      return answer;
    end if;
  end if;
  return leasehold.admit_one(
    row('claim', of_key, of_id, for_ms, null, null, true, (wanted ->> 'waits') = 'false' and (wanted ->> 'evict') is null,
        (wanted ->> 'max_hold_ms')::bigint, of_runner, wanted, null, null), now_ms, sender);
end
$$;

create or replace function leasehold.renew_one(of_key text, of_id text, for_ms bigint, sender text) returns json
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  now_ms bigint := (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000;
  kept bigint;
  left_ms bigint;
begin
  update leasehold.keys k
     set channel = sender, ttl_ms = for_ms, last_heartbeat = now_ms, renewal_count = k.renewal_count + 1,
         expires_at = least(now_ms + for_ms, k.acquired_at + (k.claim ->> 'max_hold_ms')::bigint)
   where k.key = of_key and k.id = of_id and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms
  returning k.last_fence, k.expires_at - now_ms into kept, left_ms;
  if kept is not null then return json_build_object('fence', kept, 'leftMs', left_ms); end if;
  return leasehold.admit_one(
    row('renew', of_key, of_id, for_ms, null, null, true, false, null, null, null, null, null), now_ms, sender);
end
$$;

create or replace function leasehold.release_one(of_key text, of_id text, sender text) returns json
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  now_ms bigint := (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000;
begin
  update leasehold.keys k set id = null, channel = null, runner = null, claim = null
   where k.key = of_key and k.id = of_id and not k.crowded
     and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms;
  if found then return '{"released": true}'; end if;
  return coalesce(leasehold.hand_over(of_key, of_id, sender), leasehold.admit_one(
    row('release', of_key, of_id, null, null, null, true, false, null, null, null, null, null), now_ms, sender));
end
$$;

-- Carries out a single request that has no shortcut.
create or replace function leasehold.admit_one(request leasehold.request, now_ms bigint, sender text) returns json
language plpgsql as $$
declare
  status jsonb;
  loose boolean;
  notifications jsonb[] := '{}';
begin
  if request.op = 'claim' and request.tries and leasehold.refuses_at_once(request, now_ms) then
    status := leasehold.absent_status('refused');
  else
    select c.notifications, c.status, c.loose into notifications, status, loose from leasehold.admit(request, sender, notifications) c;
  end if;
  -- Do not make the requests behind this one wait for the disk.
  if loose then perform set_config('synchronous_commit', 'off', true); end if;
  return json_build_object('rest', json_build_array(status), 'notifications', leasehold.notify_all(notifications, sender));
end
$$;

-- Carries out a batch (an array of `request`, keys in order) in one transaction, for the driver that listens on channel
-- `sender`. The last four count the requests, and those of them that are plain.
-- Returns what became of plain requests by their keys: `held` with `fences` and `leftMs`, and `released`; the statuses
-- of all others in their order as `rest`, or what the shortcuts answer; and `notifications` for the sender's own claims.
-- Other drivers are notified.
create or replace function leasehold.send(batch json, usual_runner text, sender text, requests integer,
                                          plain_claims integer, plain_renewals integer, plain_releases integer)
returns json language plpgsql set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  -- Read before any key is locked, which is good enough for a lone holder: an earlier time never lengthens its lease, and no
  -- other lease is judged by it.
  now_us bigint := extract(epoch from leasehold.clock()) * 1000000;
  now_ms bigint := now_us / 1000;
  held text[];
  fences bigint[];
  left_ms bigint[];
  renewed record;
  locks_all boolean := false;
  released text[];
  done text[];
  -- The statuses of renewed holders in `claims`, by key and then by id.
  beside jsonb;
  request leasehold.request;
  answer json;
  rest json[] := '{}';
  notifications jsonb[] := '{}';
begin
  -- Lock the rows of all keys, and make those that claims lack, in the same order everywhere and in one pass. Two passes
  -- would deadlock: one batch locks an old key and then makes a new one, another makes the new one and then wants the old.
  if requests > plain_claims + plain_renewals + plain_releases then
    insert into leasehold.keys as k (key)
    select b.key from (
      select r.key, min(r.place) as place, bool_or(r.op = 'claim') as claimed
        from rows from (json_to_recordset(batch) as (op text, key text)) with ordinality as r (op, key, place)
       group by r.key) b
     -- Not `exists`: beside an `or` the planner may read the whole table for it.
     where b.claimed or (select e.key from leasehold.keys e where e.key = b.key collate "C") is not null
     order by b.place
        on conflict (key) do update set last_fence = k.last_fence where false;
  elsif plain_claims = 0 and requests > 1 then
    perform from rows from (json_to_recordset(batch) as (key text)) with ordinality as r (key, place)
            join leasehold.keys k on k.key = r.key collate "C" order by r.place for no key update of k;
  else
    -- The insert below is that pass: of requests that are no claims it only locks the rows.
    locks_all := requests > plain_claims;
  end if;
  if plain_claims > 0 then
    -- Granted if the key is free and no unclean end is to be told.
    with granted as (
      insert into leasehold.keys as k (key, last_fence, id, channel, ttl_ms, acquired_at, last_heartbeat, renewal_count,
                                       expires_at, runner, claim)
      select r.key, case when r.op = 'claim' then now_us else 0 end, case when r.op = 'claim' then r.id end, sender, r.ttl_ms,
             now_ms, now_ms, 0, now_ms + least(r.ttl_ms, r.max_hold_ms), coalesce(r.runner, usual_runner), r.claim
        from json_populate_recordset(null::leasehold.request, batch) r
       where r.plain and (r.op = 'claim'
             or locks_all and (select e.key from leasehold.keys e where e.key = r.key collate "C") is not null)
          on conflict (key) do update
         set last_fence = greatest(k.last_fence + 1, now_us), ended = null, id = excluded.id, channel = excluded.channel,
             ttl_ms = excluded.ttl_ms, acquired_at = now_ms, last_heartbeat = now_ms, renewal_count = 0,
             expires_at = excluded.expires_at, runner = excluded.runner, claim = excluded.claim
       where excluded.id is not null and k.id is null and not k.crowded and k.last_fence < 9007199254740990 /* FENCE_MAX - 1 */
         and (k.ended is null or (k.ended ->> 'until')::bigint <= now_ms)
      returning k.key, k.id, k.last_fence, k.expires_at - now_ms as left_ms
    ) select array_agg(g.key), array_agg(g.last_fence), array_agg(g.left_ms) into held, fences, left_ms
        from granted g where g.id is not null;
  end if;
  if plain_renewals > 0 then
    with kept as (
      update leasehold.keys k
         set channel = sender, ttl_ms = r.ttl_ms, last_heartbeat = now_ms, renewal_count = k.renewal_count + 1,
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
      update leasehold.keys k set id = null, channel = null, runner = null, claim = null
        from json_populate_recordset(null::leasehold.request, batch) r
       where r.plain and r.op = 'release' and k.key = r.key collate "C" and k.id = r.id and not k.crowded
         and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms
      returning k.key
    ) select array_agg(f.key) into released from freed f;
  end if;
  done := coalesce(held || released, held, released, '{}');
  if cardinality(done) < requests then
    if requests > 1 then beside := leasehold.renew_holders(batch, done, sender); end if;
    for request in select * from json_populate_recordset(null::leasehold.request, batch) r
                    where r.plain is not true or r.key <> all (done) loop
      request.runner := coalesce(request.runner, usual_runner);
      answer := case when request.beside then (beside -> request.key -> request.id)::json
                     when request.plain then leasehold.take_shortcut(request, sender) end;
      if answer is null and request.op = 'claim' and request.tries and leasehold.refuses_at_once(request, now_ms) then
        answer := leasehold.absent_status('refused');
      elsif answer is null then
        select c.notifications, c.status into notifications, answer from leasehold.admit(request, sender, notifications) c;
      end if;
      rest := array_append(rest, answer);
    end loop;
  end if;
  return json_build_object('held', held, 'fences', fences, 'leftMs', left_ms, 'released', released, 'rest', rest,
                           'notifications', case when cardinality(notifications) > 0 then leasehold.notify_all(notifications, sender) end);
end
$$;

-- renewHolder for all holders in `claims` that a batch renews, as one statement, their keys locked. Only where all requests of
-- a key renew holders, so that their order does not matter; a lease that would end sooner is left to the rule, which keeps
-- `over_from`. Returns the statuses, by key and then by id.
create or replace function leasehold.renew_holders(batch json, done text[], sender text) returns jsonb language plpgsql as $$
declare
  now_ms bigint := (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000;
  statuses jsonb;
begin
  with asked as (
    select r.key, r.id, r.ttl_ms, bool_and(coalesce(c.leaving is null and c.expires_at > now_ms
             and c.expires_at - now_ms <= c.ttl_ms
             and c.expires_at <= least(now_ms + r.ttl_ms, c.acquired_at + c.max_hold_ms), false)) over (partition by r.key) as hold
      from json_populate_recordset(null::leasehold.request, batch) r
      left join leasehold.claims c on c.id = r.id collate "C" and c.key = r.key collate "C" and c.held::integer = 1
     where r.beside and r.key <> all (done)
  ), renewed as (
    update leasehold.claims c
       set channel = sender, ttl_ms = a.ttl_ms, last_heartbeat = now_ms, renewal_count = c.renewal_count + 1,
           expires_at = least(now_ms + a.ttl_ms, c.acquired_at + c.max_hold_ms)
      from asked a where a.hold and c.id = a.id collate "C" and c.key = a.key collate "C"
    returning c.key, c.id, jsonb_build_object('state', 'held', 'fence', c.fence, 'ttlMs', c.expires_at - now_ms)
              || case when c.after is null then '{}' else jsonb_build_object('after', c.after) end as status
  ), by_key as (
    select n.key, jsonb_object_agg(n.id, n.status) as statuses from renewed n group by n.key
  ), seen as (
    update leasehold.keys k set seen_at = greatest(k.seen_at, now_ms) from by_key b where k.key = b.key
  ) select jsonb_object_agg(b.key, b.statuses) into statuses from by_key b;
  return statuses;
end
$$;

-- Whether an exclusive holder in the row of its key, whose time is not over, refuses the claim: then nothing is written.
create or replace function leasehold.refuses_at_once(request leasehold.request, now_ms bigint) returns boolean
language plpgsql as $$
begin
  return exists (
    select from leasehold.keys k
     where k.key = request.key and k.id <> request.id and (k.ended ->> 'id') is distinct from request.id
       and k.expires_at > now_ms and k.expires_at - now_ms <= k.ttl_ms
       and coalesce((k.claim ->> 'exclusive')::boolean, true) and (k.claim ->> 'range_start') is null);
end
$$;

-- Sends the notification of a claim to a channel, unless the driver found that the server has no room for notifications. The
-- payload of NOTIFY has fewer than 8000 bytes: a notification without its status makes the claim poll, and 'poll' all claims.
create or replace function leasehold.notify_channel(channel text, notification json) returns void language sql volatile as $$
  select pg_notify(channel, case
           when octet_length(notification::text) < 7900 then notification::text
           when octet_length((notification -> 'key')::text) + octet_length((notification -> 'id')::text) < 7800
             then json_build_object('key', notification -> 'key', 'id', notification -> 'id')::text
           else 'poll' end)
   where current_setting('leasehold.mute', true) is distinct from 'on'
$$;

-- Sends notifications to their channels, and returns those for the sender itself.
create or replace function leasehold.notify_all(notifications jsonb[], sender text) returns json language plpgsql as $$
declare
  notification jsonb;
  own json[] := '{}';
begin
  foreach notification in array notifications loop
    if notification ->> 'channel' = sender then
      own := array_append(own, (notification - 'channel')::json);
    elsif notification ->> 'channel' <> '' then
      perform leasehold.notify_channel(notification ->> 'channel', (notification - 'channel')::json);
    end if;
  end loop;
  return array_to_json(own);
end
$$;
