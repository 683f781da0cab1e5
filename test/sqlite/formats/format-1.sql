-- The tables of a Leasehold lock file of format 1. With `format-2.sql` and `format-3.sql`, run after it, they become
-- those of formats 2 and 3, as older versions did it.
-- Times are whole milliseconds of the monotonic clock of the boot named first in `owner`; they mean nothing elsewhere.
-- `owner` is BOOT_NAMESPACE_PID_STARTED_SERIAL of the driver that last claimed or renewed, and the name of its inbox.

-- One row. A single fence counter serves every key, so the file does not grow with the names ever used.
create table counters (
  one      integer primary key check (one = 1),
  fence    integer not null,
  -- Numbers arrivals and grants.
  sequence integer not null,
  -- The boot that last wrote: another one may have lost the end of the log and lifts the fence to the wall clock.
  boot     text    not null
);

create table holders (
  key            text    not null,
  id             text    not null,
  -- From `sequence`: those who hold are read in the order in which they came to.
  turn           integer not null,
  fence          integer not null,
  owner          text    not null,
  ttl_ms         integer not null,
  detached       integer not null,
  entered_at     integer not null,
  -- 0: granted by a driver of another boot, whose clock says nothing here.
  acquired_at    integer not null,
  last_heartbeat integer not null,
  renewal_count  integer not null,
  expires_at     integer not null,
  -- 1: its process was seen to end; the row stays for its grace.
  died           integer not null,
  leaving        text,
  -- Whom it took over from, as JSON.
  succession     text,
  -- The claim as it was asked for, as JSON.
  claim          text    not null,
  primary key (key, id)
) without rowid;

create table waiters (
  key            text    not null,
  id             text    not null,
  -- Conversions first, then higher priority: lower goes first, and within a band the earlier arrival.
  band           integer not null,
  arrival        integer not null,
  owner          text    not null,
  ttl_ms         integer not null,
  detached       integer not null,
  entered_at     integer not null,
  last_heartbeat integer not null,
  renewal_count  integer not null,
  expires_at     integer not null,
  claim          text    not null,
  primary key (key, id)
) without rowid;

create unique index waiters_by_rank on waiters (key, band, arrival);

-- How the last unclean end of a key came about: a hint, kept for one ttl.
create table ended (
  key     text    primary key,
  boot    text    not null,
  until   integer not null,
  details text    not null
) without rowid;

create index ended_by_time on ended (until);

-- When drivers of a boot first saw a claim of another boot at this renewal count: from then on it has one ttl.
create table sightings (
  key           text    not null,
  id            text    not null,
  boot          text    not null,
  renewal_count integer not null,
  seen_at       integer not null,
  primary key (key, id, boot)
) without rowid;

-- A claim on an idle key may be a single statement (see shortcut.ts): this keeps the counters in step with it.
create trigger count_grant after insert on holders when new.turn > (select sequence from counters) begin
  update counters set fence = max(fence, new.fence), sequence = new.turn;
end;
