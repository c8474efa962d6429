"""Where Celery's processes begin and end to serve metrics: a step of the worker, signals of the beat."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportOptionalSubscript=false
# Celery ships no types.

from collections.abc import Callable
from typing import Any

from celery import Celery, bootsteps, signals

from tinymemory.errors import ConfigError
from workers.settings import WorkerSettings


class MetricsEndpoint(bootsteps.StartStopStep):
    """Serves the metrics from the worker's first process: its children would only say the same."""

    # After the pool, so that its children are forked before there is a thread.
    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._stop: Callable[[], None] = lambda: None

    def start(self, parent: Any) -> None:
        """Begin to serve, when a port is configured."""
        self._stop = serve_if_configured()

    def stop(self, parent: Any) -> None:
        """End the server."""
        self._stop()


def add_metrics(app: Celery) -> None:
    """Let the app's workers and beats serve metrics; nothing happens until one starts."""
    app.steps["worker"].add(MetricsEndpoint)
    signals.beat_init.connect(_beat_starts, weak=False)


def serve_if_configured() -> Callable[[], None]:
    """Serve the metrics when `metrics_port` is set; the answer ends it.

    Raises:
        ConfigError: The port is taken, or prometheus-client is not installed.
    """
    settings = WorkerSettings.load()
    if settings.metrics_port is None:
        return lambda: None
    try:
        from workers.metrics import serve_metrics
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`metrics_port` is set and {error.name} is missing: pip install 'tinymemory[metrics]'"
        ) from None
    return serve_metrics(settings)


def _beat_starts(**_: Any) -> None:
    serve_if_configured()
