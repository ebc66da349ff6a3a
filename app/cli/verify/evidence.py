"""Which backend has really written rows, as the tables tell; for the first trial alone."""

import asyncio

import psycopg

_INSTALL = """
    create schema verify;
    create unlogged table verify.writes (backend integer primary key);
    create function verify.note() returns trigger language plpgsql as $$
    begin
        insert into verify.writes values (pg_backend_pid()) on conflict do nothing;
        return null;
    end $$;
    do $$
    declare
        t record;
    begin
        for t in select schemaname, tablename from pg_tables
                where schemaname not in ('pg_catalog', 'information_schema', 'verify') loop
            execute format(
                'create trigger verify_note after insert or delete or update %s on %I.%I '
                'for each row execute function verify.note()',
                -- The beat of the lease is no news.
                case when (t.schemaname, t.tablename) = ('perdure', 'workers')
                    then 'of dead_at' else '' end,
                t.schemaname, t.tablename);
        end loop;
    end $$;
"""
_TAKE = "delete from verify.writes where backend = %s returning backend"


class Evidence:
    """In the database at `url`, which must be nobody else's."""

    def __init__(self, url: str) -> None:
        self._url = url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_INSTALL)

    async def take(self, backend: int) -> bool:
        """Whether this backend has committed a row since it was asked about last."""
        return await asyncio.to_thread(self._take, backend)

    def _take(self, backend: int) -> bool:
        with psycopg.connect(self._url, autocommit=True) as connection:
            return connection.execute(_TAKE, [backend]).fetchone() is not None
