"""What the doctor finds wrong with an installation, and what it says to do about each."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Live, until
from redis import Redis

from workers.access import open_ledger
from workers.doctor import Finding, Verdict, clock_finding, examine, ledger_findings, server_findings
from workers.embedded import free_port
from workers.ledger import Failure, FailureKind, JobError, Ledger, NewJob, StatsView
from workers.settings import WorkerSettings
from workers.spool import Spool
from workers.testing import RedisServer
from workers.vitals import Vitals

MakeSettings = Callable[..., WorkerSettings]


def examined(settings: WorkerSettings) -> dict[str, Finding]:
    return {finding.check: finding for finding in asyncio.run(examine(settings))}


@pytest.fixture
def settings(make_settings: MakeSettings, tmp_path: Path) -> WorkerSettings:
    return make_settings(data_dir=tmp_path / "data")


@pytest.fixture
def vitals(sync_redis: Redis) -> Vitals:
    return Vitals(sync_redis, key_prefix="{tinymemory}:")


def test_a_redis_that_would_lose_jobs_is_a_problem_with_the_setting_to_change(tmp_path: Path) -> None:
    bad = ("--maxmemory-policy", "allkeys-lru", "--appendonly", "no")
    with RedisServer(tmp_path / "redis", *bad) as server:
        found = examined(WorkerSettings.load(redis_url=server.url, data_dir=tmp_path / "data"))

    assert found["redis eviction"].verdict is Verdict.PROBLEM
    assert found["redis eviction"].found == "allkeys-lru"
    assert "noeviction" in (found["redis eviction"].advice or "")
    assert found["redis persistence"].verdict is Verdict.PROBLEM
    assert "appendonly" in (found["redis persistence"].advice or "")


@pytest.mark.parametrize(
    ("version", "verdict"), [("6.0.16", "problem"), ("5.0.0", "problem"), ("6.2.0", "ok"), ("8.0.1", "ok")]
)
def test_an_old_redis_is_a_problem(version: str, verdict: str) -> None:
    found = {finding.check: finding for finding in server_findings({"redis_version": version})}

    assert found["redis version"].verdict == verdict
    assert (found["redis version"].advice is None) == (verdict == "ok")


def test_clocks_that_disagree_are_a_warning() -> None:
    assert clock_finding(-0.4).verdict is Verdict.OK
    assert clock_finding(90.0).verdict is Verdict.WARNING
    assert "NTP" in (clock_finding(-90.0).advice or "")


def test_a_redis_that_is_away_is_named_without_its_password_and_nothing_more_is_asked_of_it(
    tmp_path: Path,
) -> None:
    url = f"redis://:hush-hush@127.0.0.1:{free_port()}/0"
    found = examined(WorkerSettings.load(redis_url=url, data_dir=tmp_path / "data"))

    assert found["redis"].verdict is found["broker"].verdict is Verdict.PROBLEM
    assert "TINYMEMORY_REDIS_URL" in (found["redis"].advice or "")
    assert "hush-hush" not in repr(found)
    assert found["engine of profile default"].verdict is Verdict.OK
    assert "beat" not in found


def test_a_refused_password_is_told_from_a_redis_that_is_away(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        with Redis(port=server.port) as client:
            client.config_set("requirepass", "right")  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        url = f"redis://:wrong@127.0.0.1:{server.port}/0"
        found = examined(WorkerSettings.load(redis_url=url, data_dir=tmp_path / "data"))

    assert found["redis"].found.endswith("refuses the credential")
    assert "password" in (found["redis"].advice or "")


def test_a_broker_that_is_away_is_a_problem_of_its_own(make_settings: MakeSettings, tmp_path: Path) -> None:
    broker = f"amqp://guest:hush-hush@127.0.0.1:{free_port()}//"
    found = examined(make_settings(broker_url=broker, data_dir=tmp_path / "data"))

    assert found["redis"].verdict is Verdict.OK
    assert found["broker"].verdict is Verdict.PROBLEM
    assert "TINYMEMORY_BROKER_URL" in (found["broker"].advice or "")
    assert "hush-hush" not in repr(found)


def test_a_queue_nobody_takes_from_is_a_problem_with_the_command_that_mends_it(
    settings: WorkerSettings, vitals: Vitals
) -> None:
    vitals.worker_ticked("w1@a", queues=("tinymemory.beliefs", "tinymemory.control"), stuck=False)
    found = examined(settings)

    assert found["workers of tinymemory.beliefs"].found == "1 alive"
    assert found["workers of tinymemory.ingest"].verdict is Verdict.PROBLEM
    assert (
        found["workers of tinymemory.ingest"].advice
        == "start one: tinymemory worker --queues tinymemory.ingest"
    )


def test_a_worker_that_takes_nothing_is_a_problem_although_it_is_alive(
    settings: WorkerSettings, vitals: Vitals
) -> None:
    vitals.worker_ticked("w1@a", queues=("tinymemory.beliefs",), stuck=True)

    stuck = examined(settings)["workers of tinymemory.beliefs"]
    assert stuck.verdict is Verdict.PROBLEM
    assert "restart" in (stuck.advice or "")


def test_a_profile_has_queues_of_its_own_to_be_taken_from(
    make_settings: MakeSettings, tmp_path: Path
) -> None:
    slow = {"slow": {"engine": "sqlite"}}
    found = examined(make_settings(profiles=slow, data_dir=tmp_path / "data"))

    assert found["workers of tinymemory.beliefs.slow"].verdict is Verdict.PROBLEM
    assert found["engine of profile slow"].verdict is Verdict.OK


def test_without_a_beat_nothing_is_swept_and_one_that_does_not_lead_is_a_warning(
    settings: WorkerSettings, vitals: Vitals
) -> None:
    none = examined(settings)["beat"]
    vitals.beat_ticked(leads=False)
    standing_by = examined(settings)["beat"]
    vitals.beat_ticked(leads=True)
    leading = examined(settings)["beat"]

    assert none.verdict is Verdict.PROBLEM
    assert "tinymemory beat" in (none.advice or "")
    assert standing_by.verdict is Verdict.WARNING
    assert leading.verdict is Verdict.OK


def test_an_engine_that_does_not_exist_or_cannot_be_made_is_a_problem(make_settings: MakeSettings) -> None:
    unknown = examined(make_settings(engine="nope"))["engine of profile default"]
    broken = examined(make_settings(engine_factory="stub_engine:make"))["engine of profile default"]

    assert unknown.verdict is Verdict.PROBLEM
    assert "nope" in unknown.found
    # The factory wants an environment that is not there.
    assert broken.verdict is Verdict.PROBLEM
    assert broken.found == "making it failed (KeyError)"


def a_job(root: str) -> NewJob:
    return NewJob(f"build:{root}:{0:020x}", "tinymemory.beliefs", "default", f"{root} []", "{}")


def test_jobs_that_are_late_parked_dead_or_spooled_are_warnings(
    make_settings: MakeSettings, sync_redis: Redis, tmp_path: Path
) -> None:
    settings = make_settings(spool_dir=tmp_path / "spool", data_dir=tmp_path / "data")

    async def fail(ledger: Ledger, root: str, kind: FailureKind, error: JobError) -> None:
        await ledger.enqueue([a_job(root)])
        (doorbell,) = (await ledger.claim("tinymemory.beliefs", 1)).doorbells
        await ledger.begin(doorbell.lease, worker="w")
        await ledger.fail(doorbell.lease, Failure(kind, error))

    async def seed() -> StatsView:
        async with open_ledger(settings) as ledger:
            await fail(ledger, "team:dead", FailureKind.PERMANENT, JobError("ConfigError", "no such engine"))
            await fail(
                ledger, "team:poor", FailureKind.CREDENTIAL, JobError("UnauthorizedError", "key revoked")
            )
            return await ledger.stats()

    stats = asyncio.run(seed())
    Spool(tmp_path / "spool", limit=1 << 20).append([a_job("team:away")])
    found = examined(settings)
    late = {one.check: one for one in ledger_findings(stats.model_copy(update={"oldest_due_age_s": 900.0}))}

    assert found["lateness"].verdict is Verdict.OK
    assert late["lateness"].verdict is Verdict.WARNING
    assert "more workers" in (late["lateness"].advice or "")
    assert found["dead letters"].found == "1"
    assert "jobs retry" in (found["dead letters"].advice or "")
    assert found["breaker of default team:poor"].found == "1 jobs parked: key revoked"
    assert found["spool"].found == "1 jobs wait for Redis"
    assert "tinymemory spool replay" in (found["spool"].advice or "")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A worker and a beat that are well."""
    folder = tmp_path_factory.mktemp("doctor")
    with RedisServer(folder / "redis") as redis:
        layer = Live(folder, redis.url)
        with layer.programs as programs:
            programs.start_together(("worker",), ("beat",))
            deadline = time.monotonic() + 30
            while not any(vital.leads for vital in layer.vitals()):
                assert time.monotonic() < deadline, "the beat does not lead"
                time.sleep(0.05)
            yield layer
        layer.redis.close()
        layer.app.close()


def told(layer: Live, *arguments: str) -> Any:
    return layer.programs.run("doctor", *arguments)


def test_an_installation_that_is_well_has_nothing_to_mend(running: Live) -> None:
    result = told(running, "--json")
    findings = json.loads(result.stdout)

    assert result.returncode == 0, result.stdout
    assert {finding["verdict"] for finding in findings} == {"ok"}
    assert [finding["advice"] for finding in findings] == [None] * len(findings)
    assert {
        "redis",
        "redis version",
        "redis eviction",
        "redis persistence",
        "clock",
        "broker",
        "workers of tinymemory.beliefs",
        "workers of tinymemory.ingest",
        "workers of tinymemory.control",
        "beat",
        "engine of profile default",
        "lateness",
        "dead letters",
    } <= {finding["check"] for finding in findings}


def test_an_engine_that_is_down_exits_one_and_says_its_reason(running: Live) -> None:
    running.stub.behave("*", health="the index is gone")
    try:
        result = told(running)
    finally:
        running.stub.behave("*")

    assert result.returncode == 1
    (line,) = [line for line in result.stdout.splitlines() if "engine of profile" in line]
    assert "problem" in line
    assert "the index is gone" in line
    # In its line, or below it when another row needs the room.
    assert "see that it runs and that its credential is valid" in result.stdout


async def test_a_worker_that_ended_as_it_should_is_missed_by_the_doctor(running: Live) -> None:
    worker = running.programs.start("worker", "-Q", "tinymemory.ingest", "-n", "second@%h")
    await until(lambda: sum(vital.kind == "worker" for vital in running.vitals()) == 2)
    with_two = told(running).stdout
    worker.terminate()
    with_one = told(running).stdout

    assert "2 alive" in with_two
    assert "2 alive" not in with_one
