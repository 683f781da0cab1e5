-- A claim as PostgreSQL keeps it: the copy in SQL of core/rule/claim-record.ts. `compareRank` is the order (band, arrival);
-- `judge` is written out in `settle_holders`, `find` (draft.sql) and `promote` (promotion.sql).

-- The place of a claim in the queue as one number, which orders as (band, arrival) does: the band times ARRIVALS, and the arrival.
create or replace function leasehold.place_of(band integer, arrival bigint) returns bigint language sql immutable as $$
  select band * 1125899906842624 + arrival
$$;

-- What a claim asks for, as a row of `claims`: the ordinary, overwritten by what `claim` has beyond that.
create or replace function leasehold.asked_for(claim json) returns leasehold.claims language plpgsql stable as $$
declare
  c leasehold.claims;
begin
  c.exclusive := true;
  c.priority := 0;
  c.waits := true;
  c.detached := false;
  c.grace_ms := 0;
  return case when claim is null then c else json_populate_record(c, claim) end;
end
$$;

-- The holder in the row of a key as a row of `claims`.
create or replace function leasehold.holder_in_row(k leasehold.keys) returns leasehold.claims language plpgsql stable as $$
declare
  c leasehold.claims := leasehold.asked_for(k.claim);
begin
  c.key := k.key;
  c.id := k.id;
  c.held := true;
  c.band := 0;
  c.arrival := 0;
  c.fence := k.last_fence;
  c.channel := k.channel;
  c.ttl_ms := k.ttl_ms;
  c.entered_at := coalesce(k.entered_at, k.acquired_at);
  c.acquired_at := k.acquired_at;
  c.last_heartbeat := k.last_heartbeat;
  c.renewal_count := k.renewal_count;
  c.expires_at := k.expires_at;
  c.runner := k.runner;
  return c;
end
$$;

-- Why a holder's time is over. PostgreSQL does not see processes die.
create or replace function leasehold.how_ended(claim leasehold.claims) returns text language sql immutable as $$
  select case when claim.expires_at >= claim.acquired_at + claim.max_hold_ms then 'max-hold' else 'expired' end
$$;
