"""What cannot work is said in a class of error and words that tell what to do."""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tinymemory import (
    ConfigError,
    EngineError,
    HealthState,
    Learning,
    ListRequest,
    SqliteEngine,
    TinyMemoryError,
    UnavailableError,
)
from tinymemory.engines.sqlite import database
from tinymemory.engines.sqlite.failure import translated
from tinymemory.engines.sqlite.schema import ensure_ours, ensure_schema


async def failure(path: Path) -> TinyMemoryError:
    async with SqliteEngine(path) as engine:
        health = await engine.health()
        assert health.state is not HealthState.OK
        with pytest.raises(TinyMemoryError) as raised:
            await engine.list(ListRequest())
        assert raised.value.message == health.reason
    return raised.value


@pytest.mark.parametrize("path", ["", ":memory:", "file:x?mode=ro"])
def test_a_path_that_is_no_files_is_refused_at_once(path: str) -> None:
    with pytest.raises(ConfigError, match="one file"):
        SqliteEngine(path)


async def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path / "a" / "b" / "memory.db") as engine:
        assert (await engine.health()).state is HealthState.OK


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    assert await failure(tmp_path) == ConfigError(
        f"`{tmp_path.name}` is a folder: the sqlite engine keeps one file"
    )


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    error = await failure(tmp_path / "file" / "memory.db")

    assert error == ConfigError("the folder of `memory.db` cannot be made: file exists")


async def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("important notes, nothing else\n" * 50)  # noqa: ASYNC240  # a test may wait

    assert await failure(path) == ConfigError("`memory.db` is no SQLite database")
    assert path.read_text().startswith("important notes")  # noqa: ASYNC240


@pytest.mark.parametrize("step", range(4))
def test_a_file_that_somebody_else_makes_ours_meanwhile_is_no_other_programs(path: Path, step: int) -> None:
    class Slow(sqlite3.Connection):
        asked = 0

        def execute(self, *args: Any) -> sqlite3.Cursor:
            if self.asked == step:
                other = sqlite3.connect(path, isolation_level=None)
                ensure_schema(other, "memory.db")
                other.close()
            self.asked += 1
            return super().execute(*args)

    connection = sqlite3.connect(path, isolation_level=None, factory=Slow)

    ensure_ours(connection, "memory.db")

    connection.close()


async def test_another_programs_database_is_left_alone(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE items (x)")
    other.commit()

    assert await failure(path) == ConfigError("`memory.db` is a database of another program")
    assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    other.close()


async def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    async with SqliteEngine(path) as engine:
        await engine.store(Learning(text="x"))
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()

    assert "newer version" in (await failure(path)).message


async def test_a_damaged_file_says_so(path: Path) -> None:
    async with SqliteEngine(path) as engine:
        for number in range(200):
            await engine.store(Learning(text=f"item {number} " * 50))
    data = bytearray(path.read_bytes())  # noqa: ASYNC240
    data[4096 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4096)
    path.write_bytes(data)  # noqa: ASYNC240

    async with SqliteEngine(path) as engine:
        with pytest.raises(EngineError, match="damaged"):
            await engine.list(ListRequest())


async def test_a_store_that_stays_busy_is_unavailable_for_now(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    async with SqliteEngine(path) as engine:
        await engine.store(Learning(text="x"))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await engine.aclose()

        with pytest.raises(UnavailableError, match="busy") as raised:
            await engine.store(Learning(text="y"))
        assert raised.value.retry_after == 1.0
        assert (await engine.health()).state is HealthState.DEGRADED
        assert len((await engine.list(ListRequest())).items) == 1
        other.close()


async def test_a_full_store_keeps_what_it_has_and_recovers(path: Path) -> None:
    async with SqliteEngine(path) as engine:
        await engine.store(Learning(text="before"))
        limit = "PRAGMA max_page_count"
        # A limit on pages fails as a full disk does; it is the connection's own, of which there is one.
        pages = await engine._database.read(lambda c: c.execute("PRAGMA page_count").fetchone()[0])  # pyright: ignore[reportPrivateUsage]  # no disk to fill
        await engine._database.read(lambda c: c.execute(f"{limit} = {pages}").fetchone())  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(UnavailableError, match="full"):
            await engine.store(Learning(text="too much " * 5_000))
        await engine._database.read(lambda c: c.execute(f"{limit} = 1000000").fetchone())  # pyright: ignore[reportPrivateUsage]
        await engine.store(Learning(text="after"))

        assert [hit.text for hit in (await engine.list(ListRequest())).items] == ["before", "after"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)  # noqa: ASYNC240

    assert isinstance(await failure(tmp_path / "memory.db"), ConfigError)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, UnavailableError),
        (sqlite3.SQLITE_FULL, UnavailableError),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, ConfigError),
        (sqlite3.SQLITE_READONLY_DIRECTORY, ConfigError),
        (sqlite3.SQLITE_IOERR_WRITE, EngineError),
        (sqlite3.SQLITE_CORRUPT_INDEX, EngineError),
        (sqlite3.SQLITE_ERROR, EngineError),
    ],
)
def test_each_failure_of_sqlite_has_a_class_and_quotes_nothing(
    code: int, kind: type[TinyMemoryError]
) -> None:
    error = sqlite3.OperationalError("near secret: syntax error")
    error.sqlite_errorcode = code

    with pytest.raises(kind) as raised, translated("memory.db"):
        raise error

    assert "secret" not in str(raised.value)
    assert "memory.db" in str(raised.value)


async def test_a_call_given_up_by_its_caller_leaves_the_engine_well(path: Path) -> None:
    async with SqliteEngine(path) as engine:
        calls: Sequence[asyncio.Task[object]] = [
            asyncio.create_task(engine.store(Learning(text=f"n{number}"))) for number in range(10)
        ]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

        assert (await engine.store(Learning(text="well"))).replayed is False
        texts = [hit.text for hit in (await engine.list(ListRequest(limit=50))).items]
        assert {"n1", "n3", "n5", "n7", "n9", "well"} <= set(texts)
