-- The walk along the queue of a key, which visits only waiters that may move: the copy in SQL of `promote` in
-- core/rule/promotion.ts. Each waiter is named by its place (place_of, claim-record.sql), and places are visited in order.

-- Up to this many waiters are all visited, whatever may move: that is quicker than to look for some.
create or replace function leasehold.few_waiters() returns integer language sql immutable as 'select 3';

-- Visits waiters and grants what conflicts with no holder and no waiter ahead. Walks once more if a granted conversion has
-- left a place that a waiter already passed may have waited for.
create or replace function leasehold.promote(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  kinds integer[];
  held_kinds integer[];
  seeks boolean;
  place bigint;
  passed bigint;
  -- The next conversion, the waiters that hold up everybody, and the asking claim.
  converts bigint;
  first_whole bigint;
  whole bigint;
  subject bigint;
  -- The first waiters on ranges that overlap what was touched, and how much of that has been looked at.
  heads bigint[];
  touches integer;
  more bigint[];
  readers_wait boolean;
  stopped boolean;
  once_more boolean;
  w leasehold.claims;
  decision text;
  beside bigint;
begin
  if leasehold.held_alone(draft.key) then return draft; end if;
  kinds := leasehold.waiting_kinds(draft.key);
  -- Where all waiters hold up everybody, the first one ends the walk.
  seeks := cardinality(kinds) > 0 and exists (
    select from leasehold.claims c where c.key = draft.key and not c.held offset leasehold.few_waiters() limit 1);
  if seeks then
    if (draft.now_ms >= draft.waiters_seen_at) is not true then draft.touched_from := -1; end if;
    select leasehold.place_of(s.band, s.arrival) into subject from leasehold.claims s
     where s.id = draft.subject_id and s.key = draft.key and s.held::integer = 0;
    first_whole := leasehold.next_whole(draft.key, -1);
    draft := leasehold.drop_expired(draft, first_whole);
  end if;
  loop
    passed := -1;
    converts := -1;
    whole := first_whole;
    heads := '{}';
    touches := 0;
    readers_wait := false;
    stopped := false;
    once_more := false;
    loop
      if not seeks then
        select * into w from leasehold.claims c
         where c.key = draft.key and not c.held
           and (c.band, c.arrival) > ((passed >> 50)::integer, passed & 1125899906842623 /* ARRIVALS - 1 */)
         order by c.band, c.arrival limit 1;
        exit when w.id is null;
        passed := leasehold.place_of(w.band, w.arrival);
      else
        while touches < cardinality(draft.touched) loop
          touches := touches + 1;
          more := leasehold.heads_of(draft.key, kinds, draft.touched[touches], passed);
          if more is null then draft.touched_from := least(draft.touched_from, greatest(passed, draft.touched[touches].behind));
          else heads := array(select h from unnest(heads || more) h where h > passed);
          end if;
        end loop;
        if converts <= passed then converts := leasehold.next_conversion(draft.key, passed); end if;
        if whole <= passed then whole := leasehold.next_whole(draft.key, passed); end if;
        place := least(converts, whole, case when subject > passed then subject end);
        if cardinality(heads) > 0 then select least(place, min(h)) into place from unnest(heads) h where h > passed; end if;
        if draft.touched_from is not null and (place is null or place > draft.touched_from) then
          held_kinds := coalesce(held_kinds, leasehold.held_kinds(draft.key));
          place := least(place, leasehold.next_to_read(draft, greatest(passed, draft.touched_from), held_kinds, readers_wait));
        end if;
        exit when place is null;
        passed := place;
        select * into w from leasehold.claims c
         where c.key = draft.key and not c.held and c.band = (place >> 50)::integer
           and c.arrival = place & 1125899906842623 /* ARRIVALS - 1 */;
        continue when w.id is null;
      end if;
      if w.expires_at - draft.now_ms > w.ttl_ms then
        -- Store the cut: cut anew at every reading, a dead waiter would live until the clock has caught up.
        w.expires_at := draft.now_ms + w.ttl_ms;
        w.last_heartbeat := least(w.last_heartbeat, draft.now_ms);
        w.due_at := least(w.due_at, w.expires_at);
        update leasehold.claims set expires_at = w.expires_at, last_heartbeat = w.last_heartbeat, due_at = w.due_at
         where key = w.key and id = w.id;
      end if;
      select j.decision, j.beside into decision, beside from leasehold.judge_waiter(draft, w) j;
      if decision = 'room' then
        draft := leasehold.grant(draft, w);
        if not w.exclusive and w.replaces is null then
          draft.granted := w;
          draft.granted_beside := beside;
        end if;
        -- It holds the key alone.
        if w.exclusive and w.range_start is null then return draft; end if;
        if w.replaces is not null then
          once_more := once_more or leasehold.waits_before(w, -1);
          held_kinds := null;
        end if;
      elsif decision = 'none' and w.waits then
        -- holdsUpEverybody: no claim can overtake this one.
        stopped := w.range_start is null and (w.exclusive or w.share_limit is not null);
        exit when stopped;
        readers_wait := readers_wait or w.range_start is null and w.replaces is null;
      else
        -- A claim that does not wait leaves at once, and has blocked no waiter behind it.
        delete from leasehold.claims where key = w.key and id = w.id;
        if w.waits then draft := leasehold.touch(draft, w, passed); end if;
        if w.id = draft.subject_id then
          draft.drop_reason := case decision when 'none' then 'refused' else decision end;
        elsif decision <> 'expired' then
          draft := leasehold.notify(draft, w, leasehold.absent_status(decision));
        end if;
      end if;
    end loop;
    exit when not once_more;
  end loop;
  if not stopped and (draft.now_ms < draft.waiters_seen_at or seeks and draft.waiters_seen_at is null) then
    -- Every lease that the clock had stretched has been cut.
    draft.waiters_seen_at := draft.now_ms;
  end if;
  return draft;
end
$$;

-- The next conversion behind a place: see the bands of `claim_place`. Few wait at a time, and each is visited, since it ends
-- with the lease that it was to replace.
create or replace function leasehold.next_conversion(of_key text, passed bigint) returns bigint language plpgsql stable as $$
begin
  return (select leasehold.place_of(c.band, c.arrival) from leasehold.claims c
           where c.key = of_key and not c.held and c.band <= 2000
             and (c.band, c.arrival) > ((passed >> 50)::integer, passed & 1125899906842623 /* ARRIVALS - 1 */)
           order by c.band, c.arrival limit 1);
end
$$;

-- The next waiter behind a place that holds up everybody.
create or replace function leasehold.next_whole(of_key text, passed bigint) returns bigint language plpgsql stable as $$
begin
  return (select leasehold.place_of(c.band, c.arrival) from leasehold.claims c
           where ('' || c.key) collate "C" = of_key and not c.held
             and c.range_start is null and (c.exclusive or c.share_limit is not null)
             and (c.band, c.arrival) > ((passed >> 50)::integer, passed & 1125899906842623 /* ARRIVALS - 1 */)
           order by c.band, c.arrival limit 1);
end
$$;

-- Drops the waiters whose time is over, but for those behind a waiter that holds up everybody: if that leaves, the walk reads
-- all behind it. Waiters that have been renewed meanwhile are due later.
create or replace function leasehold.drop_expired(draft leasehold.draft, first_whole bigint) returns leasehold.draft
language plpgsql as $$
declare
  due_count bigint;
  renewed boolean;
  c leasehold.claims;
begin
  select count(*), bool_or(draft.now_ms < d.expires_at) into due_count, renewed from leasehold.claims d
   where ('' || d.key) collate "C" = draft.key and not d.held and (d.range_start is not null or not d.exclusive)
     and coalesce(d.due_at, 0) <= draft.now_ms;
  if due_count = 0 then return draft; end if;
  if renewed then
    update leasehold.claims d set due_at = d.expires_at
     where ('' || d.key) collate "C" = draft.key and not d.held and (d.range_start is not null or not d.exclusive)
       and coalesce(d.due_at, 0) <= draft.now_ms and draft.now_ms < d.expires_at;
  end if;
  for c in delete from leasehold.claims d
            where ('' || d.key) collate "C" = draft.key and not d.held and (d.range_start is not null or not d.exclusive)
              and coalesce(d.due_at, 0) <= draft.now_ms and (first_whole is null or leasehold.place_of(d.band, d.arrival) < first_whole)
           returning *
  loop
    draft := leasehold.touch(draft, c, leasehold.place_of(c.band, c.arrival));
  end loop;
  return draft;
end
$$;

-- For each range that waiters want and that overlaps a touched one, the first of them behind a place; and the first that shares
-- the whole key without a limit. The others of that range share its fate: if it must wait, so must they, and if it leaves,
-- its range is touched. Null if there are too many ranges to look at each.
create or replace function leasehold.heads_of(of_key text, kinds integer[], t leasehold.touched, passed bigint) returns bigint[]
language plpgsql stable as $$
declare
  places bigint[] := '{}';
  behind bigint := greatest(passed, t.behind);
  kind integer;
  head record;
  from_start bigint;
  from_end bigint;
  looked_at integer := 0;
begin
  foreach kind in array kinds loop
    if kind = 100 then
      places := places || array(
        select leasehold.place_of(c.band, c.arrival) from leasehold.claims c
         where (c.key || '') collate "C" = of_key and not c.held and (c.range_start is not null or not c.exclusive)
           and leasehold.kind_of(c.exclusive, c.range_start, c.range_end) = 100
           and coalesce(c.range_start, c.share_limit) is null and c.range_end is null
           and (c.band, c.arrival) > ((behind >> 50)::integer, behind & 1125899906842623 /* ARRIVALS - 1 */)
         order by c.band, c.arrival limit 1);
      continue;
    end if;
    from_start := leasehold.earliest(t.range_start, kind);
    from_end := 9223372036854775807;
    loop
      select c.range_start, c.range_end, leasehold.place_of(c.band, c.arrival) as place into head from leasehold.claims c
       where (c.key || '') collate "C" = of_key and not c.held and (c.range_start is not null or not c.exclusive)
         and leasehold.kind_of(c.exclusive, c.range_start, c.range_end) = kind
         and (coalesce(c.range_start, c.share_limit), c.range_end) > (from_start, from_end)
         and coalesce(c.range_start, c.share_limit) < t.range_end
       order by coalesce(c.range_start, c.share_limit), c.range_end, c.band, c.arrival limit 1;
      exit when head.range_start is null;
      looked_at := looked_at + 1;
      if looked_at > 100 then return null; end if;
      from_start := head.range_start;
      from_end := head.range_end;
      continue when head.range_end <= t.range_start;
      -- The first may be a conversion that was passed, and that the next walk grants.
      if head.place > behind then
        places := array_append(places, head.place);
      else
        places := places || array(
          select leasehold.place_of(c.band, c.arrival) from leasehold.claims c
           where (c.key || '') collate "C" = of_key and not c.held and (c.range_start is not null or not c.exclusive)
             and leasehold.kind_of(c.exclusive, c.range_start, c.range_end) = kind
             and coalesce(c.range_start, c.share_limit) = head.range_start and c.range_end = head.range_end
             and (c.band, c.arrival) > ((behind >> 50)::integer, behind & 1125899906842623 /* ARRIVALS - 1 */)
           order by c.band, c.arrival limit 1);
      end if;
    end loop;
  end loop;
  return places;
end
$$;

-- The next waiter behind a place, where all may move. Passes over those that surely wait on: on a range that a holder keeps
-- them from, or behind another waiter for the very same.
create or replace function leasehold.next_to_read(draft leasehold.draft, passed bigint, kinds integer[], readers_wait boolean)
returns bigint language plpgsql stable as $$
declare
  -- No claim for the range that was granted last waits ahead of that claim. Those that did are still in the index.
  granted leasehold.claims := draft.granted;
begin
  return (
    select leasehold.place_of(c.band, c.arrival) from leasehold.claims c
     where c.key = draft.key and not c.held
       and (c.band, c.arrival) > ((passed >> 50)::integer, passed & 1125899906842623 /* ARRIVALS - 1 */)
       and (c.replaces is not null or not c.waits
            or draft.now_ms >= c.expires_at or c.expires_at - draft.now_ms > c.ttl_ms
            or case when c.range_start is null then c.exclusive or c.share_limit is not null or not readers_wait
               else not (c.exclusive and 100 = any (kinds)) and not exists (
                 select from leasehold.claims b
                  where (b.key || '') collate "C" = draft.key and not b.held and (b.range_start is not null or not b.exclusive)
                    and leasehold.kind_of(b.exclusive, b.range_start, b.range_end)
                      = leasehold.kind_of(c.exclusive, c.range_start, c.range_end)
                    and coalesce(b.range_start, b.share_limit) = c.range_start and b.range_end = c.range_end
                    -- A conversion that was passed may be granted by the next walk.
                    and b.band > 2000 and (b.band, b.arrival) < (c.band, c.arrival)
                    and (b.band, b.arrival) > (
                      case when c.range_start = granted.range_start and c.range_end = granted.range_end and not c.exclusive
                           then granted.band else -1 end, coalesce(granted.arrival, 0)))
                 and not exists (
                 select from unnest(kinds) n (kind) cross join lateral (
                   select from leasehold.claims h
                    where (h.key || '') collate "C" = draft.key and h.held
                      and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = n.kind
                      and coalesce(h.range_start, h.share_limit) > leasehold.earliest(c.range_start, n.kind)
                      and coalesce(h.range_start, h.share_limit) < c.range_end
                      and h.range_end > c.range_start
                    limit 1) h
                  where n.kind not in (0, 100) and (n.kind < 100 or c.exclusive))
               end)
     order by c.band, c.arrival limit 1);
end
$$;

-- Whether a waiter ranks before this claim, and behind a place.
create or replace function leasehold.waits_before(c leasehold.claims, behind bigint) returns boolean language plpgsql as $$
begin
  return exists (select from leasehold.claims w
                  where w.key = c.key and not w.held and (w.band, w.arrival) < (c.band, c.arrival)
                    and (w.band, w.arrival) > ((behind >> 50)::integer, behind & 1125899906842623 /* ARRIVALS - 1 */));
end
$$;

-- What becomes of the next waiter: room (granted), none (it waits), mismatch or expired (it leaves). `beside`: with how many a
-- claim shares that has room.
create or replace function leasehold.judge_waiter(draft leasehold.draft, w leasehold.claims, out decision text, out beside bigint)
language plpgsql as $$
declare
  behind bigint := -1;
begin
  decision := 'expired';
  if draft.now_ms >= w.expires_at then return; end if;
  if w.replaces is not null and not leasehold.holds(draft, w.replaces) then return; end if;
  if (draft.granted).id is not null and not w.exclusive and w.replaces is null
     and w.share_limit is not distinct from (draft.granted).share_limit
     and w.range_start is not distinct from (draft.granted).range_start
     and w.range_end is not distinct from (draft.granted).range_end then
    -- Nothing has changed but that the other one holds, and no waiter ahead of that is in the way of either.
    beside := draft.granted_beside + 1;
    behind := leasehold.place_of((draft.granted).band, (draft.granted).arrival);
    decision := case when beside >= w.share_limit then 'none' else 'room' end;
  else
    select r.room, r.sharing into decision, beside from leasehold.room_for(w, draft.shared_held) r;
  end if;
  if decision = 'mismatch' or decision = 'room' then
    if leasehold.held_up(w, behind) then decision := 'none'; end if;
  end if;
end
$$;

-- As it was in an earlier revision.
drop function if exists leasehold.held_up(leasehold.claims), leasehold.waits_before(leasehold.claims);

-- Whether a waiter ahead stands in the way (standsInTheWay): beyond exclusion, a limited claim holds up those that would take
-- from the same limit. A waiter that holds up everybody has ended the walk before. Those up to the place `behind` are not asked.
create or replace function leasehold.held_up(w leasehold.claims, behind bigint) returns boolean language plpgsql as $$
declare
  is_strict boolean := w.exclusive or w.share_limit is not null;
  kind integer;
begin
  if not leasehold.waits_before(w, behind) then return false; end if;
  if w.range_start is null then
    return is_strict or exists (
      select from leasehold.claims b
       where b.key = w.key and not b.held and (b.band, b.arrival) < (w.band, w.arrival)
         and (b.exclusive or b.share_limit is not null));
  end if;
  foreach kind in array leasehold.waiting_kinds(w.key) loop
    if kind = 100 then
      if is_strict and exists (
        select from leasehold.claims b
         where (b.key || '') collate "C" = w.key and not b.held and (b.range_start is not null or not b.exclusive)
           and leasehold.kind_of(b.exclusive, b.range_start, b.range_end) = 100
           and coalesce(b.range_start, b.share_limit) is null and b.range_end is null
           and (b.band, b.arrival) < (w.band, w.arrival)
      ) then return true; end if;
    elsif exists (
      select from leasehold.claims b
       where (b.key || '') collate "C" = w.key and not b.held and (b.range_start is not null or not b.exclusive)
         and leasehold.kind_of(b.exclusive, b.range_start, b.range_end) = kind
         and coalesce(b.range_start, b.share_limit) > leasehold.earliest(w.range_start, kind)
         and coalesce(b.range_start, b.share_limit) < w.range_end
         and b.range_end > w.range_start and (b.band, b.arrival) < (w.band, w.arrival)
         and (is_strict or b.exclusive or b.share_limit is not null)
    ) then return true; end if;
  end loop;
  return false;
end
$$;
