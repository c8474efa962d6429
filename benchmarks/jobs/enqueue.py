"""Handing over: one job, awaited or not, many at once, and a hundred in a batch."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from statistics import median
from typing import Any, cast

from redis import Redis

from benchmarks.jobs.bench import Bench, Results, build, table
from benchmarks.jobs.peers import PEERS
from workers import MemoryJobs
from workers.connection import async_redis, sync_redis
from workers.intake import Intake
from workers.ledger import SyncLedger

ROUNDS = 9
"""Many short ones: what else the machine does then falls on everyone alike."""
ENQUEUES = 400
KEYS = 100


async def enqueue(bench: Bench, results: Results) -> None:
    """Rates of handing over, everyone in turn, nine times; the median counts."""
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        async for name, rate in _enqueue_once(bench):
            rates.setdefault(name, []).append(rate)
    results.rates.update({name: median(found) for name, found in rates.items()})
    r = results.rates
    table(r)
    results.target("one enqueue / the bare script, sync", r["ours, sync"] / r["bare EVALSHA, sync"], 0.65)
    results.target(
        "one enqueue / the bare script, awaited", r["ours, await"] / r["bare EVALSHA, await"], 0.65
    )
    if "celery" in r:
        results.target("a batch of 100 / apply_async, per job", r["ours, batch of 100"] / r["celery"], 12)
    for peer in PEERS:
        if peer.dedups and peer.name in r:
            ours = r["ours, sync" if peer.sync else "ours, await"]
            results.target(f"one enqueue / {peer.name}", ours / r[peer.name], 1)


async def _enqueue_once(bench: Bench) -> AsyncIterator[tuple[str, float]]:
    jobs_ = [build(number) for number in range(KEYS)]
    settings = bench.settings()
    call = SyncLedger(sync_redis(bench.server.url)).calls.enqueue(
        Intake(settings).new_jobs(jobs_[0], root="team:acme")
    )
    words = ("EVALSHA", call.script.sha, 1, *call.args)

    bench.empty()
    with Redis(port=bench.server.port, decode_responses=True) as client:
        execute = cast("Callable[..., Any]", client.execute_command)  # redis-py leaves its options untyped
        execute("SCRIPT", "LOAD", call.script.text)
        yield "bare EVALSHA, sync", rate(ENQUEUES, lambda n: execute(*words))
    with MemoryJobs(settings) as jobs:
        yield "ours, sync", rate(ENQUEUES, lambda n: jobs.enqueue_sync(jobs_[n % KEYS], root="team:acme"))
    client = async_redis(bench.server.url)
    send = cast("Callable[..., Awaitable[Any]]", client.execute_command)
    yield "bare EVALSHA, await", await rate_awaited(ENQUEUES, lambda n: send(*words))
    yield "bare EVALSHA, 64 tasks", await rate_awaited(ENQUEUES, lambda n: send(*words), tasks=64)
    await client.aclose()
    async with MemoryJobs(settings) as jobs:

        async def one(n: int) -> object:
            return await jobs.enqueue(jobs_[n % KEYS], root="team:acme")

        async def hundred(n: int) -> object:
            return await jobs.enqueue(jobs_, root="team:acme")

        new = map(build, count(KEYS))
        yield "ours, await", await rate_awaited(ENQUEUES, one)
        yield (
            "ours, await, new keys",
            await rate_awaited(ENQUEUES, lambda n: jobs.enqueue(next(new), root="team:acme")),
        )
        yield "ours, 64 tasks", await rate_awaited(ENQUEUES, one, tasks=64)
        yield "ours, batch of 100", KEYS * await rate_awaited(ENQUEUES // 10, hundred, warm=2)
    for peer in PEERS:
        if peer.version is None:
            continue
        bench.empty()
        if peer.sync is not None:
            with peer.sync(bench.server.url) as sync_send:
                yield peer.name, rate(ENQUEUES, lambda n: sync_send(f"key-{n % KEYS}"))
        elif peer.awaited is not None:
            async with peer.awaited(bench.server.url) as send_:
                yield peer.name, await rate_awaited(ENQUEUES, lambda n: send_(f"key-{n % KEYS}"))
                new_keys = map("key-{}".format, count(KEYS))
                sending = rate_awaited(ENQUEUES, lambda n, send=send_, keys=new_keys: send(next(keys)))
                yield f"{peer.name}, new keys", await sending


def rate(calls: int, call: Callable[[int], object], *, warm: int = KEYS) -> float:
    """Calls a second, one after the other; `call` is given its number."""
    for number in range(warm):
        call(number)
    started = time.perf_counter()
    for number in range(calls):
        call(number)
    return calls / (time.perf_counter() - started)


async def rate_awaited(
    calls: int, call: Callable[[int], Awaitable[object]], *, tasks: int = 1, warm: int = KEYS
) -> float:
    """The same of awaited calls, by so many tasks at once."""
    for number in range(warm):
        await call(number)
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return calls / (time.perf_counter() - started)
