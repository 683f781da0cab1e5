-- The work of one request on a key: the copy in SQL of KeyDraft in core/rule/draft.ts, over the rows of `claims`. What is
-- decided about the key itself is kept in a `draft` (types.sql).

-- Whether a claim holds and its lease is not over: in its grace it blocks others and protects nothing.
create or replace function leasehold.holds(draft leasehold.draft, holder text) returns boolean language plpgsql as $$
begin
  return exists (select from leasehold.claims c
                  where c.key = draft.key and c.id = holder and c.held::integer = 1 and draft.now_ms < c.expires_at);
end
$$;

-- The status of a claim that is not there.
create or replace function leasehold.absent_status(reason text, detail text default null) returns jsonb
language sql immutable as $$
  select case when detail is null then jsonb_build_object('state', 'absent', 'reason', reason)
              else jsonb_build_object('state', 'absent', 'reason', reason, 'detail', detail) end
$$;

-- claimStatusOf a holder: its status, as its owner is answered or notified.
create or replace function leasehold.claim_status_of(draft leasehold.draft, c leasehold.claims) returns jsonb
language plpgsql as $$
begin
  return jsonb_strip_nulls(jsonb_build_object('state', 'held', 'fence', c.fence, 'ttlMs', c.expires_at - draft.now_ms,
                                              'leaving', c.leaving))
      || case when c.after is null then '{}'::jsonb else jsonb_build_object('after', c.after) end;
end
$$;

-- claimStatusOf a waiter, of which only its own driver is answered: leaves its status in the draft.
create or replace function leasehold.answer_waiter(draft leasehold.draft, c leasehold.claims) returns leasehold.draft
language plpgsql as $$
declare
  left_ms bigint := c.expires_at - draft.now_ms;
  again_ms bigint := left_ms;
  ahead bigint;
begin
  -- To count is the only step whose cost grows with the queue: past a thousand, a thousand is answer enough.
  select count(*) into ahead from (
    select from leasehold.claims w
     where w.key = c.key and not w.held and (w.band, w.arrival) < (c.band, c.arrival) limit 1000) first_waiters;
  if ahead = 0 then
    -- againMs: when the first holder in the way is over, or may be evicted as stale.
    if c.range_start is null then
      draft := leasehold.find_first_over(draft);
      again_ms := least(left_ms, draft.over_from - draft.now_ms);
    else
      again_ms := least(left_ms, leasehold.first_end(draft, c) - draft.now_ms);
    end if;
    if c.evict = 'stale' then
      select least(again_ms, min(h.last_heartbeat) + c.stale_ms - draft.now_ms) into again_ms from leasehold.claims h
       where h.key = c.key and h.held and leasehold.overlaps(h, c);
    end if;
    again_ms := greatest(1, again_ms);
  end if;
  draft.status := jsonb_build_object('state', 'waiting', 'ahead', ahead, 'ttlMs', left_ms, 'againMs', again_ms);
  return draft;
end
$$;

-- Whether the first holder that will be over is known: what `over_from` says is then not only a bound.
create or replace function leasehold.knows_first_over(draft leasehold.draft) returns boolean language plpgsql as $$
begin
  return exists (select from leasehold.claims h
                  where h.id = draft.over_first and h.key = draft.key and h.held::integer = 1 and h.expires_at + h.grace_ms = draft.over_from);
end
$$;

-- Finds the first holder that will be over. Reads all of them only if the first has changed since it was last looked for.
create or replace function leasehold.find_first_over(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  first record;
begin
  if leasehold.knows_first_over(draft) then return draft; end if;
  select h.id, h.expires_at + h.grace_ms as over_at into first from leasehold.claims h
   where h.key = draft.key and h.held order by h.expires_at + h.grace_ms limit 1;
  draft.over_from := first.over_at;
  draft.over_first := first.id;
  return draft;
end
$$;

-- When the first holder that overlaps the range of a claim is over; null if there is none.
create or replace function leasehold.first_end(draft leasehold.draft, c leasehold.claims) returns bigint language plpgsql as $$
declare
  kind integer;
  first_at bigint;
  over_at bigint;
begin
  foreach kind in array leasehold.held_kinds(c.key) loop
    if kind in (0, 100) then
      select h.expires_at + h.grace_ms into over_at from leasehold.claims h
       where h.id = draft.over_first and h.key = draft.key and h.held::integer = 1 and h.range_start is null
         and h.expires_at + h.grace_ms = draft.over_from;
      -- No holder is over before the first.
      if over_at is not null then return over_at; end if;
      select min(h.expires_at + h.grace_ms) into over_at from leasehold.claims h
       where (h.key || '') collate "C" = c.key and h.held
         and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = kind;
    else
      select min(h.expires_at + h.grace_ms) into over_at from leasehold.claims h
       where (h.key || '') collate "C" = c.key and h.held
         and leasehold.kind_of(h.exclusive, h.range_start, h.range_end) = kind
         and coalesce(h.range_start, h.share_limit) > leasehold.earliest(c.range_start, kind)
         and coalesce(h.range_start, h.share_limit) < c.range_end
         and h.range_end > c.range_start;
    end if;
    first_at := least(first_at, over_at);
  end loop;
  return first_at;
end
$$;

-- Remembers that a claim has left or been granted: waiters that overlap it may move, if they rank behind this place.
create or replace function leasehold.touch(draft leasehold.draft, c leasehold.claims, behind bigint default -1)
returns leasehold.draft language plpgsql as $$
begin
  if c.range_start is not null and coalesce(cardinality(draft.touched), 0) < 16 then
    draft.touched := array_append(draft.touched, row(c.range_start, c.range_end, behind)::leasehold.touched);
  else
    draft.touched_from := least(draft.touched_from, behind);
  end if;
  return draft;
end
$$;

-- Keeps `shared_held` when a claim becomes or ends as a holder.
create or replace function leasehold.count_holder(draft leasehold.draft, c leasehold.claims, change integer)
returns leasehold.draft language plpgsql as $$
begin
  if not c.exclusive and c.range_start is null then draft.shared_held := draft.shared_held + change; end if;
  return draft;
end
$$;

-- Remembers that a waiter was written, unless it wants the whole key exclusively. What is not known stays so.
create or replace function leasehold.note_waiter(draft leasehold.draft, c leasehold.claims) returns leasehold.draft
language plpgsql as $$
begin
  if draft.waiters_seen_at < draft.now_ms and (c.range_start is not null or not c.exclusive) then
    draft.waiters_seen_at := draft.now_ms;
  end if;
  return draft;
end
$$;

-- Adds a notification to those of the request.
create or replace function leasehold.notify(draft leasehold.draft, c leasehold.claims, status jsonb)
returns leasehold.draft language plpgsql as $$
begin
  draft.notifications := array_append(draft.notifications, jsonb_build_object('channel', c.channel, 'key', c.key, 'id', c.id,
                                                          'status', status));
  return draft;
end
$$;

-- Remembers an unclean end for one ttl.
create or replace function leasehold.note_end(draft leasehold.draft, c leasehold.claims, how text, cause text default null,
                                              detail text default null)
returns leasehold.draft language plpgsql as $$
begin
  draft.ended := jsonb_build_object('id', c.id, 'how', how, 'cause', cause, 'detail', detail, 'fence', c.fence,
                                   'runner', c.runner, 'until', draft.now_ms + c.ttl_ms, 'told', false);
  return draft;
end
$$;

-- Ends holders whose time is over, and cuts leases that a clock that was set back has stretched. Reads the holders only if
-- the clock has reached `over_from` or is behind `seen_at`.
create or replace function leasehold.settle_holders(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  stretched boolean;
  over boolean;
  next_over bigint;
  c leasehold.claims;
  last leasehold.claims;
begin
  if draft.now_ms < draft.over_from and draft.now_ms >= draft.seen_at then return draft; end if;
  select bool_or(h.expires_at - draft.now_ms > h.ttl_ms), bool_or(draft.now_ms >= h.expires_at + h.grace_ms),
         min(h.expires_at + h.grace_ms)
    into stretched, over, next_over from leasehold.claims h where h.key = draft.key and h.held;
  draft.over_from := next_over;
  draft.seen_at := draft.now_ms;
  if stretched then
    update leasehold.claims h
       set acquired_at = least(h.acquired_at, draft.now_ms), last_heartbeat = least(h.last_heartbeat, draft.now_ms),
           expires_at = least(draft.now_ms + h.ttl_ms, least(h.acquired_at, draft.now_ms) + h.max_hold_ms)
     where h.key = draft.key and h.held and h.expires_at - draft.now_ms > h.ttl_ms;
  end if;
  if not coalesce(stretched or over, false) then return draft; end if;
  for c in delete from leasehold.claims h
            where h.key = draft.key and h.held and draft.now_ms >= h.expires_at + h.grace_ms returning *
  loop
    if c.id = draft.subject_id then draft.drop_reason := leasehold.how_ended(c); end if;
    draft := leasehold.count_holder(draft, c, -1);
    draft := leasehold.touch(draft, c);
    if last.fence is null or c.fence > last.fence then last := c; end if;
  end loop;
  select min(h.expires_at + h.grace_ms) into next_over from leasehold.claims h where h.key = draft.key and h.held;
  draft.over_from := next_over;
  -- If several ended, remember the one that was granted last.
  if last.fence is not null then draft := leasehold.note_end(draft, last, leasehold.how_ended(last)); end if;
  return draft;
end
$$;

-- Finds the asking claim, as `judge` has it. A waiter whose time is over is removed.
create or replace function leasehold.find(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  c leasehold.claims;
begin
  select * into c from leasehold.claims f where f.key = draft.key and f.id = draft.subject_id;
  if not c.held and c.expires_at - draft.now_ms > c.ttl_ms then
    c.expires_at := draft.now_ms + c.ttl_ms;
    c.last_heartbeat := least(c.last_heartbeat, draft.now_ms);
    c.due_at := least(c.due_at, c.expires_at);
    update leasehold.claims set expires_at = c.expires_at, last_heartbeat = c.last_heartbeat, due_at = c.due_at
     where key = c.key and id = c.id;
  end if;
  if not c.held and draft.now_ms >= c.expires_at then
    delete from leasehold.claims where key = c.key and id = c.id;
    draft := leasehold.touch(draft, c, leasehold.place_of(c.band, c.arrival));
    draft.drop_reason := 'expired';
    c := null;
  end if;
  draft.subject := c;
  return draft;
end
$$;

-- settleSubject: promotes waiters and answers with the status of the asking claim.
create or replace function leasehold.settle_subject(draft leasehold.draft) returns leasehold.draft language plpgsql as $$
declare
  c leasehold.claims;
begin
  draft := leasehold.promote(draft);
  select * into c from leasehold.claims f where f.key = draft.key and f.id = draft.subject_id;
  if c.id is null then
    draft.status := leasehold.absent_status(coalesce(draft.drop_reason, 'unknown'));
  elsif not c.held and not c.waits then
    delete from leasehold.claims where key = c.key and id = c.id;
    draft.status := leasehold.absent_status('refused');
  elsif c.held then
    draft.status := leasehold.claim_status_of(draft, c);
  else
    draft := leasehold.answer_waiter(draft, c);
  end if;
  return draft;
end
$$;
