"""Machines whose clocks are hours off: Redis's is the one that everybody goes by."""

from collections.abc import Callable

from harness import SUPPORT, Live, build, until
from programs import Program

from workers.ledger import JobState

MakeLive = Callable[..., Live]

_HOUR = 3600


async def test_i10_builds_are_swept_in_time_whatever_the_clocks_of_a_worker_and_of_two_beats_say(
    live: MakeLive,
) -> None:
    layer = live()
    _start(layer, "worker", off_by=2 * _HOUR)
    ahead = _start(layer, "beat", off_by=24 * _HOUR)
    first = await layer.one(build("team:i10/agent:a"), root="team:i10", delay=0.5)
    await layer.wait_over(first.key)

    # What the one has written down of its sweeps, the next one goes by.
    ahead.kill()
    _start(layer, "beat", off_by=-2 * _HOUR)
    await until(lambda: any(vital.leads and vital.pid != ahead.pid for vital in layer.vitals()))
    second = await layer.one(build("team:i10/agent:b"), root="team:i10", delay=0.5)
    statuses = await layer.wait_over(first.key, second.key)

    assert {status.state for status in statuses} == {JobState.DONE}


def _start(layer: Live, command: str, *, off_by: int) -> Program:
    path = f"{SUPPORT / 'other_clock'}:{SUPPORT}"
    return layer.programs.start(command, PYTHONPATH=path, CLOCK_OFF_BY=str(off_by))
