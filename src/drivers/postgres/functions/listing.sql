-- Listing, forgetting and the age of the data. No copy of a part of the rule, but for mayForget of core/rule/fence.ts.

-- One page of keys, in the order of their bytes: the clock, each key with its first claims and, if it has more, how many hold
-- and wait (counted up to a thousand more than are shown), and whether the page ended early because it has `claims_enough`. `known` is the id of a claim that is shown in
-- any case. Stable, so that all of it is read as of one moment.
create or replace function leasehold.page(
  only_key text, prefix text, behind text, keys_max integer, claims_max integer, claims_enough integer, known text
) returns json language plpgsql stable
-- The planner must not believe that the claims of a key are few, and sort them all.
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  k leasehold.keys;
  shown json[];
  listed json[] := '{}';
  claims_shown integer := 0;
  ends_early boolean := false;
  -- countedMax of drivers/kit/paging.ts
  counted_max integer := claims_max + 1000;
begin
  for k in
    select * from leasehold.keys
     where (id is not null or crowded) and (only_key is null or key = only_key)
       and key > behind collate "C" and key >= prefix collate "C" and key < prefix || chr(1114111) collate "C"
     order by key limit keys_max
  loop
    ends_early := claims_shown >= claims_enough;
    exit when ends_early;
    if not k.crowded then
      shown := array[row_to_json(leasehold.holder_in_row(k))];
      listed := listed || json_build_object('key', k.key, 'claims', shown);
    else
      shown := array(
        select row_to_json(c) from (
          select h.* from leasehold.holder_in_row(k) h where k.id is not null
          union all
          (select c.* from leasehold.claims c where c.key = k.key and c.held order by c.fence limit claims_max)
          union all
          (select c.* from leasehold.claims c where c.key = k.key and not c.held order by c.band, c.arrival limit claims_max)
        ) c limit claims_max);
      if cardinality(shown) < claims_max then
        listed := listed || json_build_object('key', k.key, 'claims', shown);
      else
        listed := listed || json_build_object(
          'key', k.key,
          'claims', shown || array(
            select row_to_json(c) from leasehold.claims c
             where c.key = k.key and c.id = known
               and not exists (select from unnest(shown) s where s ->> 'id' = known)),
          'held', (k.id is not null)::integer + (
            select count(*) from (
              select from leasehold.claims c where c.key = k.key and c.held limit counted_max) first_holders),
          'waiting', (
            select count(*) from (
              select from leasehold.claims c where c.key = k.key and not c.held limit counted_max) first_waiters));
      end if;
    end if;
    claims_shown := claims_shown + cardinality(shown);
  end loop;
  return json_build_object(
    'now', (extract(epoch from leasehold.clock()) * 1000000)::bigint / 1000, 'keys', array_to_json(listed), 'more', ends_early);
end
$$;

-- Forgets keys whose last fence the clock has passed by an hour (mayForget), and returns how many.
create or replace function leasehold.tidy(keys_max integer) returns bigint language plpgsql as $$
declare
  now_us bigint := extract(epoch from leasehold.clock()) * 1000000;
  -- forgetAfterMicroseconds of core/rule/fence.ts
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

-- For how many milliseconds the tables have certainly lost nothing: no longer than this copy of them has been seen here, and
-- no longer than the server has been up, as a start may have brought back older files.
create or replace function leasehold.kept_for_ms() returns double precision language plpgsql as $$
declare
  this_copy text;
  since timestamptz;
begin
  if pg_is_in_recovery() then
    raise read_only_sql_transaction using message = 'A standby cannot say for how long it will have kept its data';
  end if;
  this_copy := leasehold.copy_of(array['leasehold.keys', 'leasehold.claims', 'leasehold.kept_since']::regclass[]);
  select k.at into since from leasehold.kept_since k where k.copy = this_copy;
  if since is null then
    insert into leasehold.kept_since as k (copy) values (this_copy)
        on conflict (one) do update set at = clock_timestamp(), copy = excluded.copy where k.copy <> excluded.copy;
    return 0;
  end if;
  return greatest(0, extract(epoch from clock_timestamp() - greatest(since, pg_postmaster_start_time())) * 1000);
end
$$;
