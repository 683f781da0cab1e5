-- What format 3 changes, so that a plain grant or release writes a single page, and a hand-over is decided by SQL alone.

-- The counters are a row among the holders. Its key is a blob, so it is no text and nobody's.
drop trigger count_grant;
drop trigger count_hand_over;
insert into holders (key, id, turn, fence, owner, ttl_ms, detached, entered_at, acquired_at, last_heartbeat,
  renewal_count, expires_at, died, claim)
select x'', '', sequence, fence, boot || '_', 0, 1, 0, 0, 0, 0, 9007199254740991, 0, '' from counters;
drop table counters;
create view counters as
  select fence, turn as sequence, substr(owner, 1, length(owner) - 1) as boot from holders where key = x'' and id = '';

-- For drivers that have had the file open since an older format: they write to the table that was.
create trigger set_counters instead of update on counters begin
  update holders set fence = new.fence, turn = new.sequence, owner = new.boot || '_' where key = x'' and id = '';
end;

create trigger count_grant after insert on holders when new.turn > (select sequence from counters) begin
  update holders set fence = max(fence, new.fence), turn = new.turn where key = x'' and id = '';
end;

create trigger count_hand_over after update of id on holders begin
  delete from waiters where key = new.key and id = new.id;
  update holders set fence = new.fence, turn = new.turn where key = x'' and id = '';
end;

-- 1: wants the whole key for itself, for as long as it renews, and takes nobody's place: what `handOver` can grant.
alter table waiters add column plain integer not null default 0;
