from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from promql_parser import parse as parse_promql

from tinymemory.errors import ConfigError
from workers.embedded import free_port
from workers.ledger import BreakerView, Failure, FailureKind, JobError, LaneStats, NewJob, Success
from workers.ledger.ledger import Ledger
from workers.ledger.options import LedgerOptions
from workers.metrics import LedgerCollector, serve_metrics
from workers.settings import WorkerSettings
from workers.spool import SpoolStats
from workers.testing import RedisServer

DEPLOY = Path(__file__).parents[2] / "deploy"


def a_job(root: str, number: int, queue: str = "tinymemory.beliefs") -> NewJob:
    return NewJob(
        key=f"build:{root}:{number:020x}",
        queue=queue,
        profile="default",
        scope=f"{root} [conversation]",
        envelope="{}",
    )


@pytest.fixture
async def ledger(redis: Any) -> Ledger:
    return Ledger(redis, LedgerOptions())


@pytest.fixture
def scrape(redis_server: RedisServer, redis: Any) -> Any:
    settings = WorkerSettings.load(redis_url=redis_server.url, metrics_port=free_port())
    stop = serve_metrics(settings)

    def samples() -> dict[tuple[str, str], float]:
        text = httpx.get(f"http://127.0.0.1:{settings.metrics_port}/metrics", trust_env=False).text
        return {
            (sample.name, sample.labels.get("queue", sample.labels.get("width", ""))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    yield samples
    stop()


async def test_what_the_ledger_holds_is_told_by_queue(
    ledger: Ledger, scrape: Callable[[], dict[tuple[str, str], float]]
) -> None:
    await ledger.enqueue([a_job("team:a", 1), a_job("team:a", 2), a_job("team:b", 3)])
    await ledger.enqueue([a_job("team:a", 1)])
    done, dead, parked = (await ledger.claim("tinymemory.beliefs", 3)).doorbells
    for doorbell in (done, dead, parked):
        await ledger.begin(doorbell.lease, worker="w1@host")
    await ledger.settle(done.lease, Success(built=2))
    await ledger.fail(dead.lease, Failure(FailureKind.PERMANENT, JobError("ConfigError", "no such engine")))
    await ledger.fail(
        parked.lease, Failure(FailureKind.CREDENTIAL, JobError("UnauthorizedError", "the key was rejected"))
    )

    told = scrape()

    queue = "tinymemory.beliefs"
    assert told["tinymemory_ledger_up", ""] == 1
    assert told["tinymemory_jobs_enqueued_total", queue] == 4
    assert told["tinymemory_jobs_merged_total", queue] == 1
    assert told["tinymemory_merge_ratio", queue] == 0.25
    assert told["tinymemory_jobs_done_total", queue] == 1
    assert told["tinymemory_jobs_died_total", queue] == 1
    assert told["tinymemory_jobs_dead", queue] == 1
    assert told["tinymemory_jobs_parked", queue] == 1
    assert told["tinymemory_breakers_open", "root"] == 1
    assert told["tinymemory_lag_seconds_count", queue] == 3


async def test_no_tenant_is_named(ledger: Ledger, scrape: Any, redis_server: RedisServer) -> None:
    await ledger.enqueue([a_job("team:acme-the-tenant", 1)])

    assert not [name for name, _ in scrape() if "acme" in name]


def test_a_ledger_that_does_not_answer_is_told_and_does_not_fail_the_scrape() -> None:
    def fail() -> tuple[list[LaneStats], list[BreakerView]]:
        raise ConnectionError

    (up,) = LedgerCollector(fail).collect()

    assert [sample.value for sample in up.samples] == [0.0]


def test_a_taken_port_is_named(redis_server: RedisServer, scrape: Any) -> None:
    settings = WorkerSettings.load(redis_url=redis_server.url, metrics_port=redis_server.port)

    with pytest.raises(ConfigError, match=str(redis_server.port)):
        serve_metrics(settings)


def test_every_alert_parses_and_has_its_entry_in_the_runbook() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    runbook = (DEPLOY.parent / "docs" / "operations.md").read_text()
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]

    assert len(alerts) >= 8
    for alert in alerts:
        parse_promql(alert["expr"])
        assert f"### {alert['alert']}\n" in runbook
        assert alert["annotations"]["runbook"].endswith(f"#{alert['alert'].lower()}")


def test_every_panel_of_the_dashboard_asks_for_what_is_served() -> None:
    dashboard = yaml.safe_load((DEPLOY / "grafana" / "dashboards" / "tinymemory.json").read_text())
    collector = LedgerCollector(lambda: ([LaneStats("q", "p")], []), SpoolStats)
    served = {family.name for family in collector.collect()}
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]

    assert len(expressions) >= 8
    for expression in expressions:
        parse_promql(expression)
        assert any(name in expression for name in served), expression
