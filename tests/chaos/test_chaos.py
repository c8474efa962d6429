"""Everything is killed at random while jobs are owed: none is lost, none runs beside itself."""

import asyncio
import random
import signal
import time
from pathlib import Path

from harness import Live, build, ingest, most_at_once
from programs import Program

from workers.ledger import JobState
from workers.testing import RedisServer

SECONDS = 12.0


async def test_i1_i2_nothing_is_lost_or_doubled_while_workers_beats_and_redis_are_killed(
    tmp_path: Path,
) -> None:
    dice = random.Random(20261130)
    with RedisServer(tmp_path / "redis") as redis:
        layer = Live(
            tmp_path,
            redis.url,
            max_losses=1000,
            max_attempts=1000,
            lease=1.5,
            doorbell_lease=3.0,
            max_in_flight=8,
        )
        layer.stub.behave(sleep=0.2)
        try:
            workers = layer.programs.start_together(
                ("worker", "-n", "one@%h", "-c", "4"), ("worker", "-n", "two@%h", "-c", "4")
            )
            beat = layer.programs.start("beat")
            keys = [
                one.key
                for n in range(10)
                for job in (build(f"team:c{n}/agent:a"), build(f"team:c{n}/agent:b"), ingest(f"c{n}"))
                for one in await layer.enqueue(job, root=f"team:c{n}")
            ]
            started = time.monotonic()
            while time.monotonic() - started < SECONDS:
                await asyncio.sleep(dice.uniform(0.5, 1.5))
                match dice.randrange(4):
                    case 0:
                        redis.kill()
                        redis.start()
                    case 1:
                        beat.kill()
                        beat = layer.programs.start("beat", wait=False)
                    case _:
                        workers[0] = _replaced(layer, workers[0], dice)
                        workers.reverse()
            statuses = await layer.wait_over(*keys, seconds=60.0)
            calls = layer.stub.calls(what="")
        finally:
            await layer.aclose()

    assert {status.state for status in statuses} == {JobState.DONE}
    for about in {call.about for call in calls}:
        # A killed run has no end of its own: only those that ended can be told to overlap.
        ended = [call for call in calls if call.about == about and call.what != "begin"]
        begun = [call for call in calls if call.about == about and call.what == "begin"]
        spans = [call for call in begun if any(e.pid == call.pid and e.at >= call.at for e in ended)]
        assert most_at_once([*spans, *ended]) <= 1


def _replaced(layer: Live, worker: Program, dice: random.Random) -> Program:
    if dice.random() < 0.5:
        worker.kill()
    else:
        worker.signal(signal.SIGTERM)
    return layer.programs.start("worker", "-n", f"w{len(layer.programs.started)}@%h", "-c", "4", wait=False)
