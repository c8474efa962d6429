"""One file, many processes: at first opening, at work, killed half way, and after a fork."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from tinymemory import (
    BeliefsRequest,
    ConsolidateRequest,
    FetchMode,
    FetchRequest,
    Learning,
    ListRequest,
    Namespace,
    Reach,
    SqliteEngine,
)

_PRELUDE = """
import asyncio, os, sys
from tinymemory import *
path = sys.argv[1]
"""
PATIENCE = 60


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    code = _PRELUDE + textwrap.dedent(program)
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outputs(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    ends = [process.communicate(timeout=PATIENCE) for process in processes]
    assert [(process.returncode, error) for process, (_, error) in zip(processes, ends, strict=True)] == [
        (0, "") for _ in processes
    ]
    return [output for output, _ in ends]


async def texts(path: Path) -> list[str]:
    async with SqliteEngine(path) as engine:
        page = await engine.list(ListRequest(limit=10_000))
    return [hit.text for hit in page.items]


def test_processes_that_open_a_new_file_at_the_same_moment_all_get_in(path: Path) -> None:
    program = """
        async def main():
            async with SqliteEngine(path) as engine:
                while not os.path.exists(sys.argv[2]):
                    await asyncio.sleep(0.001)
                await engine.store(Learning(text=f"from {sys.argv[3]}"))
        asyncio.run(main())
    """
    gate = path.with_name("gate")
    processes = [start(program, path, gate, number) for number in range(4)]
    gate.touch()
    outputs(processes)

    assert sorted(asyncio.run(texts(path))) == [f"from {number}" for number in range(4)]


def test_r66_the_same_items_from_several_processes_end_as_one_of_each(path: Path) -> None:
    program = """
        async def main():
            async with SqliteEngine(path) as engine:
                fresh = 0
                for number in range(15):
                    body = DocumentBody(text=f"# Part\\n\\nfact {number} " * 300)
                    fresh += not (await engine.store(Document(body=body))).replayed
                print(fresh)
        asyncio.run(main())
    """
    fresh = outputs([start(program, path) for _ in range(3)])

    assert sum(map(int, fresh)) == 15
    assert len(asyncio.run(texts(path))) == 15
    with sqlite3.connect(path) as connection:
        (pieces,) = connection.execute("SELECT count(DISTINCT item), count(*) FROM pieces").fetchall()
        (words,) = connection.execute("SELECT count(*) FROM words").fetchone()
    connection.close()
    assert pieces[0] == 15
    assert pieces[1] == words


def test_r49_builds_in_several_processes_believe_a_fact_once(path: Path) -> None:
    program = """
        async def main():
            async with SqliteEngine(path) as engine:
                for number in range(10):
                    meta = MemoryMeta(thread_id=f"{sys.argv[2]}-{number}")
                    turn = Turn(role=Role.USER, text="The budget is 5000.")
                    await engine.store(Conversation(turns=(turn,), meta=meta))
                    await engine.consolidate(ConsolidateRequest(reach=Reach.exact("root")))
        asyncio.run(main())
    """
    outputs([start(program, path, number) for number in range(3)])

    async def believed() -> list[str]:
        async with SqliteEngine(path) as engine:
            await engine.consolidate(ConsolidateRequest(reach=Reach.subtree(Namespace.ROOT)))
            assert await engine.unbuilt(Reach.subtree(Namespace.ROOT)) == []
            return [hit.text for hit in await engine.beliefs(BeliefsRequest(limit=50))]

    assert asyncio.run(believed()) == ["The budget is 5000."]


@pytest.mark.parametrize("batch", [1, 20])
def test_what_was_acknowledged_before_a_sigkill_is_there_and_nothing_by_halves(
    path: Path, batch: int
) -> None:
    program = """
        async def main():
            async with SqliteEngine(path) as engine:
                number, batch = 0, int(sys.argv[2])
                while True:
                    items = [Learning(text=f"item {number + n}") for n in range(batch)]
                    await engine.store_many(items)
                    number += batch
                    print(number, flush=True)
        asyncio.run(main())
    """
    process = start(program, path, batch)
    assert process.stdout is not None
    acknowledged = 0
    while acknowledged < 30 * batch:
        acknowledged = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=PATIENCE)
    acknowledged = int(rest.split()[-1]) if rest.split() else acknowledged

    found = asyncio.run(texts(path))
    assert found[:acknowledged] == [f"item {number}" for number in range(acknowledged)]
    assert len(found) % batch == 0
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    connection.close()


def test_r15_forked_children_use_an_engine_their_parent_has_used(path: Path) -> None:
    program = """
        import threading, traceback
        engine = SqliteEngine(path)
        asyncio.run(engine.store(Learning(text="before the fork")))

        def busy(stop):
            while not stop.is_set():
                asyncio.run(engine.store(Learning(text="the parent's")))
                asyncio.run(engine.fetch(FetchRequest(query="parent")))
        stop = threading.Event()
        thread = threading.Thread(target=busy, args=(stop,))
        thread.start()

        async def child(number):
            for n in range(5):
                await engine.store(Learning(text=f"child {number} {n}"))
            page = await engine.fetch(FetchRequest(query="before fork"))
            assert page.hits[0].text == "before the fork"
            await engine.aclose()

        children = []
        for number in range(4):
            pid = os.fork()
            if pid == 0:
                try:
                    asyncio.run(child(number))
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            children.append(pid)
        codes = [os.waitpid(pid, 0)[1] for pid in children]
        stop.set()
        thread.join()
        asyncio.run(engine.aclose())
        print(codes)
    """
    # Python itself warns of forking with threads; here that is the point.
    (output,) = outputs(
        [start("import warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(program), path)]
    )

    assert output == "[0, 0, 0, 0]\n"
    assert len(asyncio.run(texts(path))) == 2 + 4 * 5


async def test_many_tasks_and_engines_write_and_read_one_file_at_once(path: Path) -> None:
    engines = [SqliteEngine(path) for _ in range(3)]

    async def work(number: int) -> None:
        engine = engines[number % 3]
        await engine.store(Learning(text=f"number {number}"))
        page = await engine.fetch(FetchRequest(query=f"{number}", mode=FetchMode.KEYWORD))
        assert f"number {number}" in [hit.text for hit in page.hits]
        await engine.consolidate(ConsolidateRequest(reach=Reach.exact("root")))

    await asyncio.gather(*map(work, range(60)))
    for engine in engines:
        await engine.aclose()

    assert len(await texts(path)) == 60


def test_an_engine_that_is_never_closed_ends_quietly(path: Path) -> None:
    program = """
        engine = SqliteEngine(path)
        asyncio.run(engine.store(Learning(text="x")))
    """
    outputs([start(program, path)])

    assert os.path.exists(path)
