-- Which claims can share a key: the copy in SQL of core/rule/conflict.ts. Excludes, standsInTheWay and holdsUpEverybody are
-- written out where they are used: `room_for` here, `judge_waiter` and `promote` in promotion.sql.

-- Whether two claims touch the same bytes. A claim without a range touches all of them.
create or replace function leasehold.overlaps(claim leasehold.claims, other_claim leasehold.claims) returns boolean
language sql immutable as $$
  select claim.range_start is null or other_claim.range_start is null
      or (claim.range_start < other_claim.range_end and other_claim.range_start < claim.range_end)
$$;

-- The kinds of the holders of a key, each found by one step in the index.
create or replace function leasehold.held_kinds(of_key text) returns integer[] language plpgsql stable as $$
declare
  kinds integer[] := '{}';
  kind integer := -1;
begin
  loop
    select leasehold.kind_of(h.exclusive, h.range_start, h.range_end) into kind from leasehold.claims h
     where (h.key || '') collate "C" = of_key and h.held
       and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) > kind
     order by leasehold.kind_of(h.exclusive, h.range_start, h.range_end) limit 1;
    exit when kind is null;
    kinds := array_append(kinds, kind);
  end loop;
  return kinds;
end
$$;

-- The same for the waiters, without those that want the whole key exclusively.
create or replace function leasehold.waiting_kinds(of_key text) returns integer[] language plpgsql stable as $$
declare
  kinds integer[] := '{}';
  kind integer := -1;
begin
  loop
    select leasehold.kind_of(w.exclusive, w.range_start, w.range_end) into kind from leasehold.claims w
     where (w.key || '') collate "C" = of_key and not w.held and (w.range_start is not null or not w.exclusive)
       and leasehold.kind_of(w.exclusive, w.range_start, w.range_end) > kind
     order by leasehold.kind_of(w.exclusive, w.range_start, w.range_end) limit 1;
    exit when kind is null;
    kinds := array_append(kinds, kind);
  end loop;
  return kinds;
end
$$;

-- Where the ranges of a kind start at the earliest that reach beyond this start.
create or replace function leasehold.earliest(range_start bigint, kind integer) returns bigint language sql immutable as $$
  select range_start - (1::bigint << (65 - kind % 100))
$$;

-- As it was in an earlier revision.
drop function if exists leasehold.room_for(leasehold.claims, text[]);

-- Whether a claim can join the holders, of which `shared_held` share the whole key, leaving some of them out: room, none, or
-- mismatch (they share by another limit). `sharing`: how many overlap a claim that has room beside them.
create or replace function leasehold.room_for(claim leasehold.claims, shared_held bigint, without text[] default '{}',
                                              out room text, out sharing bigint)
language plpgsql as $$
declare
  kinds integer[] := leasehold.held_kinds(claim.key);
  kind integer;
  more bigint;
  mismatched boolean := false;
  other_limit boolean;
begin
  sharing := 0;
  room := 'none';
  foreach kind in array kinds loop
    -- Holders that share beside a claim that shares are counted below.
    continue when kind >= 100 and not claim.exclusive;
    if claim.range_start is null or kind in (0, 100) then
      if exists (
        select from leasehold.claims h
         where (h.key || '') collate "C" = claim.key and h.held
           and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = kind
           and h.id is distinct from claim.replaces and h.id <> all (without)
      ) then return; end if;
    elsif exists (
      select from leasehold.claims h
       where (h.key || '') collate "C" = claim.key and h.held
         and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = kind
         and coalesce(h.range_start, h.share_limit) > leasehold.earliest(claim.range_start, kind)
         and coalesce(h.range_start, h.share_limit) < claim.range_end
         and h.range_end > claim.range_start
         and h.id is distinct from claim.replaces and h.id <> all (without)
    ) then return; end if;
  end loop;
  if claim.exclusive then
    room := 'room';
    return;
  end if;
  foreach kind in array kinds loop
    continue when kind < 100;
    if kind = 100 then
      -- By the index: limits below, limits above, and no limit.
      other_limit := exists (
        select from leasehold.claims h
         where (h.key || '') collate "C" = claim.key and h.held
           and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = 100
           and coalesce(h.range_start, h.share_limit) < coalesce(claim.share_limit, 9223372036854775807)
           and h.id is distinct from claim.replaces and h.id <> all (without)
      ) or claim.share_limit is not null and (exists (
        select from leasehold.claims h
         where (h.key || '') collate "C" = claim.key and h.held
           and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = 100
           and coalesce(h.range_start, h.share_limit) > claim.share_limit
           and h.id is distinct from claim.replaces and h.id <> all (without)
      ) or exists (
        select from leasehold.claims h
         where (h.key || '') collate "C" = claim.key and h.held
           and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = 100
           and coalesce(h.range_start, h.share_limit) is null
           and h.id is distinct from claim.replaces and h.id <> all (without)
      ));
      more := shared_held;
      if claim.replaces is not null or cardinality(without) > 0 then
        select more - count(*) into more from leasehold.claims h
         where h.id = any (claim.replaces || without) and h.key = claim.key and h.held::integer = 1
           and not h.exclusive and h.range_start is null;
      end if;
    elsif claim.range_start is null then
      select count(*), bool_or(h.share_limit is distinct from claim.share_limit) into more, other_limit
        from leasehold.claims h
       where (h.key || '') collate "C" = claim.key and h.held
         and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = kind
         and h.id is distinct from claim.replaces and h.id <> all (without);
    else
      select count(*), bool_or(h.share_limit is distinct from claim.share_limit) into more, other_limit
        from leasehold.claims h
       where (h.key || '') collate "C" = claim.key and h.held
         and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = kind
         and coalesce(h.range_start, h.share_limit) > leasehold.earliest(claim.range_start, kind)
         and coalesce(h.range_start, h.share_limit) < claim.range_end
         and h.range_end > claim.range_start
         and h.id is distinct from claim.replaces and h.id <> all (without);
    end if;
    mismatched := mismatched or coalesce(other_limit, false);
    sharing := sharing + more;
  end loop;
  if mismatched then room := 'mismatch';
  elsif (sharing >= claim.share_limit) is not true then room := 'room';
  end if;
end
$$;
