"""How Celery is set up, and what is refused."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Celery ships no types.

from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency.solo import TaskPool as SoloPool
from celery.concurrency.thread import TaskPool as ThreadPool

from tinymemory.errors import ConfigError
from workers.configuration import (
    celery_configuration,
    ensure_keeps_keys,
    ensure_no_other_broker,
    ensure_pool_grows,
    ensure_visibility,
    pool_asked_for,
)
from workers.settings import WorkerSettings


def test_the_configuration_is_what_the_contract_says() -> None:
    conf = celery_configuration(WorkerSettings.load())

    assert conf["accept_content"] == conf["result_accept_content"] == ["json"]
    assert {conf[f"{what}_serializer"] for what in ("task", "event", "result")} == {"json"}
    assert conf["task_ignore_result"]
    assert conf["result_backend"] is None
    assert conf["worker_send_task_events"]
    assert conf["worker_prefetch_multiplier"] == 1
    assert not conf["task_acks_late"]
    assert not conf["task_reject_on_worker_lost"]
    assert conf["broker_connection_retry"]
    assert conf["broker_connection_retry_on_startup"]
    assert conf["broker_connection_max_retries"] is None
    assert conf["broker_transport_options"]["visibility_timeout"] > WorkerSettings.load().job_timeout


def test_a_worker_takes_the_queues_of_every_profile() -> None:
    settings = WorkerSettings.load(profiles={"slow": {"engine": "cortexdb"}})

    names = [queue.name for queue in celery_configuration(settings)["task_queues"]]

    assert names == [
        "tinymemory.control",
        "tinymemory.beliefs",
        "tinymemory.ingest",
        "tinymemory.beliefs.slow",
        "tinymemory.ingest.slow",
    ]


@pytest.mark.parametrize(("timeout", "fits"), [(599.0, False), (600.0, False), (601.0, True)])
def test_the_visibility_timeout_must_be_above_the_job_timeout(timeout: float, fits: bool) -> None:
    settings = WorkerSettings.load(visibility_timeout=timeout, job_timeout=600.0)
    conf = celery_configuration(settings)
    if fits:
        ensure_visibility(conf, settings)
        return
    with pytest.raises(ConfigError, match="visibility timeout"):
        ensure_visibility(conf, settings)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_redis_that_evicts_is_refused(policy: str) -> None:
    ensure_keeps_keys({"maxmemory_policy": "noeviction"})

    with pytest.raises(ConfigError, match="set it to noeviction"):
        ensure_keeps_keys({"maxmemory_policy": policy})


@pytest.mark.parametrize(
    ("argv", "pool"),
    [
        (["celery", "-A", "workers.app", "worker"], "threads"),
        (["celery", "-A", "workers.app", "worker", "-P", "prefork"], "prefork"),
        (["celery", "-A", "workers.app", "worker", "--pool=prefork"], "prefork"),
        (["celery", "-A", "workers.app", "worker", "-P", "solo"], "threads"),
    ],
)
def test_the_pool_is_threads_unless_prefork_is_asked_for(argv: list[str], pool: str) -> None:
    assert pool_asked_for(argv) == pool


def test_rabbitmq_acknowledges_when_a_run_ends_so_that_none_waits_behind_it() -> None:
    conf: dict[str, Any] = celery_configuration(WorkerSettings.load(broker_url="amqp://host//"))

    assert conf["task_acks_late"]
    assert "worker_disable_prefetch" not in conf


@pytest.mark.parametrize(
    "options",
    [["-b", "redis://other:6379/0"], ["--broker", "redis://other:6379/0"], ["--broker=redis://other:6379/0"]],
)
def test_a_broker_named_on_the_command_line_is_refused_as_it_would_change_nothing(options: list[str]) -> None:
    settings = WorkerSettings.load()

    with pytest.raises(ConfigError, match="TINYMEMORY_BROKER_URL"):
        ensure_no_other_broker(["celery", *options, "-A", "workers.app", "worker"], settings)
    ensure_no_other_broker(["celery", "-b", settings.broker_url, "-A", "workers.app", "worker"], settings)


@pytest.mark.parametrize("pool", [ThreadPool, SoloPool])
def test_a_pool_of_one_size_is_not_scaled(pool: Any) -> None:
    fixed = SimpleNamespace(pool=pool(4), autoscale=[8, 4])

    with pytest.raises(ConfigError, match="--pool prefork"):
        ensure_pool_grows(fixed)
    ensure_pool_grows(SimpleNamespace(pool=fixed.pool, autoscale=None))
