"""How fast jobs are handed over, run and drained, beside other queues on the same Redis, in one run.

    python -m benchmarks.jobs [--only enqueue,drain,sleepers,latency,coverage,million] [--png jobs.png]

Prints a table of ratios, a line for each target, and says which peers are missing.  Start it on a
quiet machine with `redis-server` on PATH; `--million 100000` makes the largest part smaller.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from redis import Redis

from benchmarks.jobs.backlog import million
from benchmarks.jobs.bench import Bench, Results
from benchmarks.jobs.enqueue import enqueue
from benchmarks.jobs.report import chart, describe
from benchmarks.jobs.running import coverage, drain, latency, sleepers
from workers.testing import RedisServer

PARTS = {part.__name__: part for part in (enqueue, drain, sleepers, latency, coverage, million)}


def main() -> int:
    """Run the parts; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--png", type=Path)
    parser.add_argument("--million", type=int, default=1_000_000)
    given = parser.parse_args()
    results = Results()
    print(describe(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with RedisServer(folder / "redis", "--appendfsync", "everysec") as server:
            bench = Bench(server, folder, given.million)
            with Redis(port=server.port) as client:
                info: Any = client.info("server")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # untyped
                print(f"Redis {info['redis_version']}, append-only, fsync every second", flush=True)
            for part in given.only.split(","):
                print(f"\n{part}: {(PARTS[part].__doc__ or '').splitlines()[0]}", flush=True)
                asyncio.run(PARTS[part](bench, results))
    if given.png and results.rates:
        chart(results, given.png)
    missed = [target for target in results.targets if not target.is_met]
    print(f"\n{len(results.targets) - len(missed)} of {len(results.targets)} targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
