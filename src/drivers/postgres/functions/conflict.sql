-- Which claims can share a key: the copy in SQL of core/rule/conflict.ts. Excludes, standsInTheWay and holdsUpEverybody are
-- written out where they are used: `room_for` here, `judge_waiter` and `promote` in promotion.sql.

-- Whether two claims touch the same bytes. A claim without a range touches all of them.
create or replace function leasehold.overlaps(claim leasehold.claims, other_claim leasehold.claims) returns boolean
language sql immutable as $$
  select claim.range_start is null or other_claim.range_start is null
      or (claim.range_start < other_claim.range_end and other_claim.range_start < claim.range_end)
$$;

-- Whether a claim can join the holders, leaving some of them out: room, none, or mismatch (they share by another limit).
create or replace function leasehold.room_for(claim leasehold.claims, without text[] default '{}') returns text
language plpgsql as $$
declare
  sharing bigint;
  excluded boolean;
  mismatched boolean;
begin
  select count(*), bool_or(h.exclusive or claim.exclusive),
         bool_or(h.share_limit is distinct from claim.share_limit)
    into sharing, excluded, mismatched
    from leasehold.claims h
   where h.key = claim.key and h.held and h.id is distinct from claim.replaces and h.id <> all (without)
     and leasehold.overlaps(h, claim);
  if excluded then return 'none'; end if;
  if mismatched then return 'mismatch'; end if;
  if sharing >= claim.share_limit then return 'none'; end if;
  return 'room';
end
$$;
