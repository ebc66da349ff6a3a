"""Rows as the write side leaves them, put there directly."""

import itertools
import json
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from app.domain.canonical import encode
from app.domain.ids import new_run_id

Values = dict[str, Any]


class Rows:
    """Inserts with defaults; each method answers the id (or number) of what it made."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)

    @classmethod
    async def connect(cls, url: str) -> Self:
        return cls(await psycopg.AsyncConnection.connect(url, autocommit=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connection.close()

    async def run(self, id: str | None = None, **values: Any) -> str:
        run = id or new_run_id()
        session = values.get("session", f"ses_{run}")
        await self.execute(
            "insert into perdure.sessions (id) values (%s) on conflict do nothing", session
        )
        if values.get("target") is not None:
            await self.execute(
                "insert into perdure.targets values (%s) on conflict do nothing", values["target"]
            )
        defaults: Values = {
            "id": run,
            "root": run,
            "agent": "desk",
            "agent_version": "v1",
            "session": session,
            "input": "hello",
            "limits": {"turns": 50},
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "parked": values.get("status") == "waiting",
        }
        if "parent" in values and "delegated_by" not in values:
            values["delegated_by"] = await self._delegating(values["parent"])
        await self._insert("runs", defaults | values, json_columns=("input", "output", "error"))
        return run

    async def _delegating(self, parent: str) -> str:
        """A call of the parent's that a child answers."""
        turn = 1000 + next(self._numbers)
        return await self.call(parent, turn, tool="delegate", replay="transactional")

    async def ended(self, *types: str) -> str:
        """A run that has succeeded after these events."""
        run = await self.run(status="succeeded", finished_at="2030-01-01")
        await self.events(run, *types, "run.succeeded")
        return run

    async def end(self, run: str, status: str = "succeeded") -> None:
        await self.execute(
            """update perdure.runs set status = %s, parked = false, finished_at = now()
               where id = %s""",
            status,
            run,
        )

    async def park(self, run: str) -> None:
        await self.execute(
            "update perdure.runs set status = 'waiting', parked = true where id = %s", run
        )

    async def turn(self, run: str, number: int = 1, **values: Any) -> int:
        defaults: Values = {
            "run": run,
            "number": number,
            "model": "claude-test",
            "parameters": {},
            "prompt_hash": "p",
            "tools_hash": "t",
            "history": [],
            "worker": "w1",
        }
        await self._insert("turns", defaults | values, json_columns=("content",))
        return number

    async def call(self, run: str, turn: int = 1, index: int = 0, **values: Any) -> str:
        call = f"call_{run.removeprefix('run_')}_{turn}_{index}"
        defaults: Values = {
            "id": call,
            "run": run,
            "turn": turn,
            "index": index,
            "root": run,
            "session": f"ses_{run}",
            "provider_id": "toolu_1",
            "tool": "pay",
            "proposed": {"ref": "a"},
        }
        await self._insert(
            "calls", defaults | values, json_columns=("proposed", "arguments", "result")
        )
        return call

    async def wait(self, run: str, **values: Any) -> str:
        wait = f"wait_{next(self._numbers)}"
        defaults: Values = {"id": wait, "run": run, "kind": "approval", "question": "May it?"}
        await self._insert(
            "waits", defaults | values, json_columns=("arguments", "evidence", "resolution")
        )
        return wait

    async def message(self, run: str, text: str, **values: Any) -> str:
        message = f"msg_{next(self._numbers)}"
        await self._insert("messages", {"id": message, "run": run, "text": text} | values)
        return message

    async def events(self, run: str, *types: str) -> None:
        for type_ in types:
            await self.execute(
                """with told as (update perdure.runs set seq = seq + 1 where id = %s returning seq)
                   insert into perdure.events (run, seq, type, data)
                   select %s, seq, %s, json_build_object('n', seq) from told""",
                run,
                run,
                type_,
            )

    async def agent(self, name: str, definition: Values) -> None:
        version = definition["version"]
        await self._insert(
            "agent_versions",
            {"agent": name, "version": version, "definition": definition},
            json_columns=("definition",),
        )
        await self._insert("agents", {"name": name, "version": version})

    async def worker(self, id: str, *agents: str, alive: bool = True, **values: Any) -> str:
        """`alive`: this very connection holds its lease."""
        number = next(self._numbers)
        defaults: Values = {
            "id": id,
            "lock": number,
            "host": "box",
            "pid": 100 + number,
            "boot_id": "b",
            "pid_namespace": "n",
            "process_started": "s",
            "version": "1.0",
            "agents": list(agents),
        }
        await self._insert("workers", defaults | values)
        if alive:
            await self.execute("select pg_advisory_lock(1346720836, %s)", number)
        return id

    async def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(statement.encode(), values)
        return await cursor.fetchall() if cursor.description else []

    async def count(self, table: str) -> int:
        statement = sql.SQL("select count(*) from perdure.{}").format(sql.Identifier(table))
        found = await (await self._connection.execute(statement)).fetchone()
        assert found is not None
        return int(found[0])

    async def _insert(self, table: str, values: Values, json_columns: tuple[str, ...] = ()) -> None:
        statement = sql.SQL("insert into perdure.{} ({}) values ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(sql.Placeholder() * len(values)),
        )
        await self._connection.execute(
            statement,
            [
                encode(value) if name in json_columns and value is not None else _plain(value)
                for name, value in values.items()
            ],
        )


def _plain(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict | list) else value
