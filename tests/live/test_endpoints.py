"""What a container's probes and Prometheus ask of real processes."""

from collections.abc import Callable

import httpx
from harness import Live, build, until

from workers.embedded import free_port

MakeLive = Callable[..., Live]


def scraped(port: int) -> dict[str, float]:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=20).text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_forked_workers_and_the_beat_serve_the_same_counts_once(live: MakeLive) -> None:
    layer = live()
    worker_port, beat_port = free_port(), free_port()
    worker = layer.programs.start(
        "worker", "--pool", "prefork", "-c", "2", TINYMEMORY_METRICS_PORT=str(worker_port)
    )
    beat = layer.programs.start("beat", TINYMEMORY_METRICS_PORT=str(beat_port))
    built = await layer.enqueue(*(build(f"team:m/agent:a{n}") for n in range(4)), root="team:m")
    await layer.wait_over(*(one.key for one in built))

    lane = '{profile="default",queue="tinymemory.beliefs"}'
    for port in (worker_port, beat_port):
        told = scraped(port)
        assert told["tinymemory_ledger_up"] == 1
        assert told[f"tinymemory_jobs_done_total{lane}"] == 4
        assert told[f"tinymemory_run_seconds_count{lane}"] == 4
        assert not [name for name in told if "team:m" in name]

    assert worker.terminate() == 0
    # Its children held the socket too, had they been forked after it was opened.
    assert not _answers(worker_port)
    assert beat.terminate() == 0


async def test_probes_are_well_while_both_run_and_name_the_one_that_does_not(live: MakeLive) -> None:
    layer = live()

    def asked(part: str) -> int:
        return layer.programs.run("health", part).returncode

    neither = layer.programs.run("health", "worker")
    worker, beat = layer.programs.start_together(("worker",), ("beat",))
    await until(lambda: {"worker", "beat", "loop"} <= {vital.kind for vital in layer.vitals()})
    well = (asked("worker"), asked("beat"))
    flower = layer.programs.run("health", "flower", FLOWER_PORT=str(free_port()))
    beat.kill()
    worker.terminate()

    assert neither.returncode == 4
    assert "no worker runs" in neither.stderr
    assert well == (0, 0)
    assert flower.returncode == 1
    assert "does not answer" in flower.stderr
    assert (asked("worker"), asked("beat")) == (4, 4)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=5).is_success
    except httpx.HTTPError:
        return False
