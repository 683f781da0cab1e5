-- Which copy of the data this is. Part of both PostgreSQL stores. "leasehold." stands for the schema's name. Safe to run again.

-- Names what no two copies of the tables have in common: the cluster (another one after `initdb` or `pg_upgrade`), its timeline
-- (another one after a promotion or a recovery to a point in time), the database, and the files of the tables (others after
-- they were created, restored or truncated).
create or replace function leasehold.copy_of(tables regclass[]) returns text language sql volatile as $$
  select concat_ws(' ', s.system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), d.oid,
                   (select string_agg(t.name::oid || ':' || pg_relation_filenode(t.name), ' ' order by t.place)
                      from unnest(tables) with ordinality as t (name, place)))
    from pg_control_system() s, pg_database d where d.datname = current_database()
$$;
