"""What Flower is told: one row a run, from its beginning to how it ended."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# Celery ships no types.

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from harness import Live, build, ingest, until

from workers.ledger import JobState, Lease

MakeLive = Callable[..., Live]


@contextmanager
def watched(layer: Live) -> Generator[Callable[[], dict[str, Any]]]:
    """Rows by task id, kept as Flower keeps them, while the block runs."""
    state: Any = layer.app.events.State()
    connection: Any = layer.app.connection_for_read()
    receiver: Any = layer.app.events.Receiver(connection, handlers={"*": state.event})
    connection.ensure_connection()

    def snapshot() -> dict[str, Any]:
        return state.freeze_while(lambda: dict(state.tasks.items()))

    # Its loop looks once a second whether it should stop.
    thread = threading.Thread(target=lambda: receiver.capture(wakeup=False), daemon=True)
    thread.start()
    try:
        yield snapshot
    finally:
        receiver.should_stop = True
        thread.join(20.0)
        connection.close()


async def test_a_run_is_one_row_with_a_readable_scope_its_outcome_and_its_state(shared: Live) -> None:
    shared.stub.behave("team:dead", error="ConflictError", message="for good")
    with watched(shared) as rows:
        await asyncio.sleep(0.5)
        done = await shared.one(build("team:rows/agent:a"), root="team:rows")
        dead = await shared.one(build("team:dead/agent:a"), root="team:dead")
        await shared.wait_over(done.key, dead.key)
        await until(lambda: {row.state for id_, row in rows().items() if "team:dead" in id_} == {"FAILURE"})
        await until(lambda: {row.state for id_, row in rows().items() if "team:rows" in id_} == {"SUCCESS"})
        (row,) = [row for id_, row in rows().items() if id_.startswith(done.key)]
        (failed,) = [row for id_, row in rows().items() if id_.startswith(dead.key)]

    assert row.name == "tinymemory.build_beliefs"
    assert row.args == "team:rows/agent:a"
    assert row.result == '{"job": "build_beliefs", "outcome": "done", "built": 1, "scopes": 1}'
    assert row.worker.hostname.startswith("celery@")
    assert failed.exception == "ConflictError: conflict: for good"


async def test_a_run_that_goes_again_is_a_row_in_retry_and_a_stale_doorbell_leaves_none(
    live: MakeLive,
) -> None:
    layer = live(backoff_base=0.2, max_attempts=2)
    layer.stub.behave("team:again", error="EngineError")
    with watched(layer) as rows:
        await asyncio.sleep(0.5)
        layer.programs.start("worker")
        again = await layer.one(build("team:again/agent:a"), root="team:again")
        stale = await layer.one(ingest("stale"), root="team:stale")
        async with layer.ledger() as ledger:
            (doorbell,) = (await ledger.claim("tinymemory.ingest")).doorbells
            await ledger.drop(stale.key)
        for _ in range(2):
            layer.app.send_task(
                "tinymemory.ingest_brain",
                args=[doorbell.lease.key, doorbell.lease.token],
                task_id=doorbell.lease.task_id,
                queue="tinymemory.ingest",
                ignore_result=True,
            )
        await layer.sweep()
        await until(lambda: any(row.state == "RETRY" for row in rows().values()))
        while await layer.state(again.key) is not JobState.DEAD:
            await layer.sweep()
            await asyncio.sleep(0.2)
        await until(lambda: any(row.state == "FAILURE" for row in rows().values()))
        states = {id_: row.state for id_, row in rows().items()}

    assert sorted(states.values()) == ["FAILURE", "RETRY"]
    assert all(id_.startswith(again.key) for id_ in states)


async def test_a_doorbell_that_rings_twice_starts_one_run(shared: Live) -> None:
    shared.stub.behave("team:twice", sleep=0.5)
    first = await shared.one(build("team:twice/agent:a"), root="team:twice")
    await until(lambda: len(shared.stub.calls(root="team:twice")) == 1)
    async with shared.ledger() as ledger:
        detail = await ledger.show(first.key)
    assert detail is not None
    assert detail.run is not None
    lease = Lease(first.key, int(detail.run.rpartition(":")[2]))
    shared.app.send_task(
        "tinymemory.build_beliefs",
        args=[lease.key, lease.token],
        task_id=lease.task_id,
        queue="tinymemory.beliefs",
        ignore_result=True,
    )
    await shared.wait_over(first.key)
    await asyncio.sleep(1.0)

    assert len(shared.stub.calls(root="team:twice")) == 1
    assert len(await shared.history(first.key)) == 1
