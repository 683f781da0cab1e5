-- The rule of src/core/rule/ beside the data. Each file is named after the TypeScript part that it copies, and each function
-- after the function there. Change both together, and the revision in schema.ts: the model test holds them equal.
-- "leasehold." stands for the schema's name. Safe to run again.
--
-- `send` carries out a batch in one transaction; `claim_one`, `renew_one` and `release_one` a single request. A holder
-- without company is dealt with in the row of its key in `keys`; so is, mostly, an exclusive holder while others wait in
-- `claims` (contended.sql). Everything else goes through `admit`, which works on the rows of `claims`.
--
-- Several files, in the order of schema.ts. Numbers that mean something have these names in the comments beside them:
--   FENCE_MAX   9007199254740991, 2^53 - 1: the highest fence, see nextFence in core/rule/fence.ts.
--   PLAIN_BAND  5000: the band of a claim that is no conversion and has priority 0, see `claim_place`.
--   ARRIVALS    1125899906842624, 2^50: more than there will be, see `place_of`.

-- The database's clock. Read after the keys are locked, so that time never runs backwards between two batches.
create or replace function leasehold.clock() returns timestamptz language sql volatile as
  'select clock_timestamp()';

-- Whether a statement sees all that was committed before it locked its key. Under another default isolation it may not:
-- then a change of `claims` also rewrites the row of the key, so that a transaction that began before fails and is retried.
create or replace function leasehold.sees_all() returns boolean language sql stable as
  $$ select current_setting('transaction_isolation') = 'read committed' $$;

-- Made anew, as an earlier revision has other columns. The functions that use the types go with them, and are made below.
drop type if exists leasehold.step cascade;
drop type if exists leasehold.draft cascade;
drop type if exists leasehold.touched cascade;
drop type if exists leasehold.request cascade;

create type leasehold.request as (
  op          text,
  key         text,
  id          text,
  ttl_ms      bigint,
  -- For renew the fence floor, for evict the fence of the holder.
  fence       bigint,
  reason      text,
  -- The only request of its key, and nothing out of the ordinary: it may be dealt with in the row of its key.
  plain       boolean,
  -- For claim: the claim neither waits nor evicts nor replaces.
  tries       boolean,
  max_hold_ms bigint,
  -- For claim: its runner; null: the usual runner of the batch.
  runner      text,
  -- For claim: what it asks beyond the ordinary, in the names of the columns of `claims`.
  claim       json,
  -- For renew: whether the claim may outlive its process from now on; null: as before.
  detached    boolean,
  -- For renew: nothing out of the ordinary, and all requests of its key are such renewals, of different claims.
  beside      boolean
);

-- A range that a claim has left or been granted.
create type leasehold.touched as (
  range_start bigint,
  range_end   bigint,
  -- Only waiters behind this place can move because of it.
  behind      bigint
);

-- The fields of KeyDraft in core/rule/draft.ts that do not stand in rows of `claims`.
create type leasehold.draft as (
  key           text,
  now_ms        bigint,
  -- The wall clock in microseconds, as in KeyView.
  fence_floor   bigint,
  -- The id of the asking claim, and the channel of its driver.
  subject_id    text,
  channel       text,
  last_fence    bigint,
  ended         jsonb,
  -- As in `keys`.
  over_from     bigint,
  seen_at       bigint,
  over_first    text,
  waiters_seen_at bigint,
  shared_held   bigint,
  -- Where something has changed: only there can a waiter be granted that could not be before.
  touched       leasehold.touched[],
  -- The waiter that shares and was granted last, and how many shared with it when it came; null: something else has changed since.
  granted       leasehold.claims,
  granted_beside bigint,
  -- All waiters behind this place may move; null: none, but for those that overlap what was touched.
  touched_from  bigint,
  -- The asking claim, once `find` has looked for it.
  subject       leasehold.claims,
  -- Why the asking claim is gone, if this request found or made it so.
  drop_reason   text,
  -- The asking claim takes the place of the holders that it evicted.
  taken         boolean,
  -- The answer.
  status        jsonb,
  -- What other drivers are to hear: channel, key, id, status.
  notifications jsonb[]
);
