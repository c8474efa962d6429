"""What Prometheus is told: the ledger's own counts, by queue and profile.

The ledger counts over all workers, so nothing is added up between processes: whichever process is
asked reads the same numbers from Redis, and a restart or a fork loses none.  With several processes
scraped, take the `max` over them, not the sum.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from tinymemory.errors import ConfigError
from workers.connection import sync_redis
from workers.ledger import BreakerView, LaneStats, LedgerOptions, SyncLedger
from workers.settings import WorkerSettings
from workers.spool import Spool, SpoolStats

_ANSWER_SECONDS = 5.0
LANE = ("queue", "profile")
_GAUGES: dict[str, tuple[str, Callable[[LaneStats], float]]] = {
    "tinymemory_jobs_waiting": ("Jobs that wait, those due included.", lambda lane: lane.waiting),
    "tinymemory_jobs_due": ("Jobs that could run now.", lambda lane: lane.due),
    "tinymemory_jobs_queued": ("Jobs claimed and not begun.", lambda lane: lane.queued),
    "tinymemory_jobs_running": ("Jobs that run.", lambda lane: lane.running),
    "tinymemory_jobs_in_flight": ("Jobs claimed or running.", lambda lane: lane.queued + lane.running),
    "tinymemory_jobs_parked": ("Jobs an open breaker holds back.", lambda lane: lane.parked),
    "tinymemory_jobs_dead": ("Dead letters kept.", lambda lane: lane.dead),
    "tinymemory_oldest_due_age_seconds": (
        "How long the job that is due longest has been; 0 when none is.",
        lambda lane: lane.oldest_due_age_s or 0.0,
    ),
    "tinymemory_merge_ratio": (
        "The share of enqueues that merged into a job already there.",
        lambda lane: lane.merged_total / lane.enqueued_total if lane.enqueued_total else 0.0,
    ),
}
_COUNTERS: dict[str, tuple[str, Callable[[LaneStats], float]]] = {
    "tinymemory_jobs_enqueued": (
        "Enqueues accepted, merged ones included.",
        lambda lane: lane.enqueued_total,
    ),
    "tinymemory_jobs_merged": ("Enqueues that merged.", lambda lane: lane.merged_total),
    "tinymemory_jobs_claimed": ("Claims.", lambda lane: lane.claimed_total),
    "tinymemory_jobs_done": ("Runs that did what there was to do.", lambda lane: lane.done_total),
    "tinymemory_jobs_retried": ("Runs that failed and go again.", lambda lane: lane.retried_total),
    "tinymemory_jobs_throttled": (
        "Of the retried: runs whose engine said when to come back.",
        lambda lane: lane.throttled_total,
    ),
    "tinymemory_jobs_lost": ("Runs whose worker fell silent.", lambda lane: lane.lost_total),
    "tinymemory_jobs_folded": ("Builds a wider one covered.", lambda lane: lane.folded_total),
    "tinymemory_jobs_cancelled": ("Jobs dropped.", lambda lane: lane.cancelled_total),
    "tinymemory_jobs_died": ("Jobs given up.", lambda lane: lane.dead_total),
    "tinymemory_dead_letters_evicted": (
        "Dead letters the limit pushed out.",
        lambda lane: lane.dead_evicted_total,
    ),
    "tinymemory_history_evicted": (
        "History records the limit pushed out.",
        lambda lane: lane.history_evicted_total,
    ),
}
_MILLISECONDS = 1000.0


class LedgerCollector(Collector):
    """Reads the ledger at each scrape; a Redis that does not answer leaves `tinymemory_ledger_up` 0."""

    def __init__(
        self,
        read: Callable[[], tuple[list[LaneStats], list[BreakerView]]],
        spool: Callable[[], SpoolStats | None] = lambda: None,
    ) -> None:
        self._read = read
        self._spool = spool

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        up = GaugeMetricFamily("tinymemory_ledger_up", "Whether the ledger answered this scrape.")
        try:
            lanes, breakers = self._read()
        except Exception:  # whatever the reason, the scrape itself must say so and not fail
            up.add_metric((), 0.0)
            yield up
        else:
            up.add_metric((), 1.0)
            yield up
            yield from _lane_metrics(lanes)
            yield _breakers(breakers)
        yield from _spool_metrics(self._spool())

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not need the ledger."""
        return ()


def serve_metrics(settings: WorkerSettings) -> Callable[[], None]:
    """Serve `/metrics` on `metrics_port` of every interface, from a thread; the answer ends it.

    Raises:
        ConfigError: The port is taken.
    """
    port = settings.metrics_port or 0
    client = sync_redis(settings.redis_url, timeout=_ANSWER_SECONDS)
    ledger = SyncLedger(client, LedgerOptions.from_settings(settings))
    spool = Spool.from_settings(settings)
    registry = CollectorRegistry()
    registry.register(
        LedgerCollector(
            lambda: (ledger.lanes(), ledger.breakers()),
            spool.stats if spool else lambda: None,
        )
    )
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        raise ConfigError(f"`metrics_port` {port} cannot be served ({error.strerror})") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()

    return stop


def _lane_metrics(lanes: list[LaneStats]) -> Iterator[Metric]:
    for name, (text, value) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=LANE)
        for lane in lanes:
            gauge.add_metric((lane.queue, lane.profile), value(lane))
        yield gauge
    for name, (text, value) in _COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=LANE)
        for lane in lanes:
            counter.add_metric((lane.queue, lane.profile), value(lane))
        yield counter
    runs = SummaryMetricFamily("tinymemory_run_seconds", "How long runs took.", labels=LANE)
    lags = SummaryMetricFamily("tinymemory_lag_seconds", "How late runs began: start minus due.", labels=LANE)
    for lane in lanes:
        labels = (lane.queue, lane.profile)
        ended = lane.done_total + lane.retried_total + lane.dead_total
        runs.add_metric(labels, count_value=ended, sum_value=lane.run_ms_total / _MILLISECONDS)
        lags.add_metric(labels, count_value=lane.begun_total, sum_value=lane.lag_ms_total / _MILLISECONDS)
    yield runs
    yield lags


def _breakers(breakers: list[BreakerView]) -> Metric:
    # By profile and width alone: a label for each tenant would be a series for each tenant.
    gauge = GaugeMetricFamily("tinymemory_breakers_open", "Open breakers.", labels=("profile", "width"))
    counts = Counter((one.profile, "profile" if one.root is None else "root") for one in breakers)
    for (profile, width), count in sorted(counts.items()):
        gauge.add_metric((profile, width), count)
    return gauge


def _spool_metrics(spool: SpoolStats | None) -> Iterator[Metric]:
    if spool is not None:
        yield GaugeMetricFamily("tinymemory_spool_jobs", "Jobs spooled while Redis is away.", spool.lines)
        yield GaugeMetricFamily("tinymemory_spool_bytes", "The size of the spool.", spool.bytes)
