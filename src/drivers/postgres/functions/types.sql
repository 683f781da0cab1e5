-- The rule of src/core/rule/admission.ts and src/core/admission/ beside the data. Whoever changes one changes the other, and
-- the revision in schema.ts: the model test holds them equal. "leasehold." stands for the schema's name. Safe to run again.
--
-- `send` carries out a batch in one transaction, `claim_one`, `renew_one` and `release_one` a single request. A holder
-- that has everything is dealt with in the row of its key in `keys`, while others wait in `claims` (`turns.sql`);
-- everything else goes through `carry_out`, which works on the rows of `claims` and keeps what it has decided about the
-- key in a `step`.
--
-- First of several files, in this order: types, claims, changes, promotion, eviction, requests, turns, send, listing.

-- The database's clock. Read after the keys are locked, so that time never runs backwards between two batches.
create or replace function leasehold.clock() returns timestamptz language sql volatile as
  'select clock_timestamp()';

-- Made anew, for those of an earlier revision have other columns. What uses them goes with them, and is made anew below.
drop type if exists leasehold.step cascade;
drop type if exists leasehold.request cascade;

create type leasehold.request as (
  op          text,
  key         text,
  id          text,
  ttl_ms      bigint,
  -- For renew the fence floor, for evict the fence of the holder.
  fence       bigint,
  reason      text,
  -- It may be dealt with in the row of its key: the only request of its key, and nothing out of the ordinary.
  plain       boolean,
  -- For claim: it neither waits nor evicts nor replaces.
  tries       boolean,
  max_hold_ms bigint,
  -- For claim: who asks; null: who asks for most of the batch.
  runner      text,
  -- For claim: what is asked beyond the ordinary, in the names of the columns of `claims`.
  claim       json,
  -- For renew: whether the claim may outlive its process from now on; null: as before.
  detached    boolean
);
create type leasehold.step as (
  key        text,
  now_ms     bigint,
  now_us     bigint,
  -- The id of the asking claim, and the channel of its driver.
  asked      text,
  channel      text,
  last_fence bigint,
  ended      jsonb,
  -- The asking claim, where a function looks for it.
  found      leasehold.claims,
  -- Why the asking claim is gone, if this step found or made it so.
  over       text,
  -- The asking claim has taken somebody's place.
  taken      boolean,
  -- The answer.
  status   jsonb,
  -- What others should hear: channel, key, id, status.
  notifications       jsonb[]
);
