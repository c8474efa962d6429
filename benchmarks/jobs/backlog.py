"""A long backlog: what it costs to add to it and to take from it, and what a waiting job weighs."""

import time
from typing import Any

from redis import Redis

from benchmarks.jobs.bench import Bench, Results
from benchmarks.jobs.enqueue import rate
from workers.ledger import Coverage, LedgerOptions, NewJob, SyncLedger


async def million(bench: Bench, results: Results) -> None:
    """Enqueue and claim with a long backlog, against a short one; and what a waiting job weighs."""
    bench.empty()
    with Redis(port=bench.server.port, decode_responses=True) as client:
        ledger = SyncLedger(client, LedgerOptions(max_in_flight=10**9))
        _fill(ledger, 0, 1000)
        few = _ledger_rates(ledger)
        bench.empty()
        before = _memory(client)
        _fill(ledger, 0, bench.million)
        per_job = (_memory(client) - before) / bench.million
        _wait_for_rewrite(client)
        many = _ledger_rates(ledger)
    print(f"  at 1,000 waiting: {few}; at {bench.million:,}: {many}; {per_job:.0f} bytes a job")
    for name in ("enqueue", "claim"):
        results.target(f"{name} at 1,000 / at {bench.million:,}", few[name] / many[name], 1.5, at_least=False)
    results.target("bytes of Redis a waiting job", per_job, 1024, at_least=False)
    bench.empty()


def _fill(ledger: SyncLedger, first: int, count: int) -> None:
    roots = max(count // 100, 10)
    for start in range(first, first + count, 500):
        ledger.enqueue([_new_job(number, roots) for number in range(start, min(start + 500, first + count))])


def _new_job(number: int, roots: int) -> NewJob:
    root = f"team:t{number % roots}"
    at = f"{root}/agent:a{number}"
    return NewJob(
        key=f"build:{root}:{number:020x}",
        queue="tinymemory.beliefs",
        profile="default",
        scope=f"{at} [conversation]",
        envelope=f'{{"v":1,"root":"{root}","profile":"default","job":{{"job":"build_beliefs","request":'
        f'{{"reach":{{"at":"{at}","inherit":false,"descendants":false}},"kinds":["conversation"]}}}}}}',
        coverage=Coverage(at, inherit=False, descendants=False, kinds=("conversation",)),
    )


def _ledger_rates(ledger: SyncLedger) -> dict[str, float]:
    def enqueue_one(number: int) -> object:
        return ledger.enqueue([_new_job(10**9 + number, 10)])

    def claim_ten(number: int) -> object:
        claimed = ledger.claim("tinymemory.beliefs", 10)
        return ledger.give_back([doorbell.lease for doorbell in claimed.doorbells])

    return {"enqueue": rate(1000, enqueue_one), "claim": rate(300, claim_ten)}


def _wait_for_rewrite(client: Any) -> None:
    # While Redis writes its file anew, every page that is touched is copied first.
    while client.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.1)


def _memory(client: Any) -> int:
    return int(client.info("memory")["used_memory"])
