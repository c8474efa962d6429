"""The Celery app of the job layer: `celery -A workers.app worker`.

It is never the process's current app, so that a host's own Celery stays as it is, and it reads the
settings and opens connections when it is first used, not when it is imported.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import time
from datetime import datetime, timedelta
from typing import Any

from celery import Celery

from workers.broker import kombu_broker
from workers.configuration import celery_configuration
from workers.metrics_step import add_metrics
from workers.pulse import add_pulse
from workers.redaction import without_password
from workers.runtime import RuntimeHolder
from workers.settings import WorkerSettings
from workers.tasks import register_tasks
from workers.worker_steps import extend_workers


class JobsApp(Celery):
    """A Celery app whose broker is the settings' and nobody else's.

    Celery lets `CELERY_BROKER_URL` and `CELERY_RESULT_BACKEND` overrule every app of a process.  They
    are the host's, for an app of its own: ours would ring where none of our workers listens.
    """

    backend_cls = "disabled"
    own_broker = ""
    """With its password, which is not in `conf`, where anyone may see it."""
    redis_is_ahead = 0.0
    """Seconds between this machine's clock and Redis's, the one that everybody goes by."""

    def go_by(self, redis_now: float) -> None:
        """Tell the time as Redis does, whose Unix time this is."""
        self.redis_is_ahead = redis_now - time.time()

    def now(self) -> datetime:
        """The time by which periodic messages are due and expire."""
        return super().now() + timedelta(seconds=self.redis_is_ahead)

    def connection_for_read(self, url: str | None = None, **options: Any) -> Any:
        """A connection to our broker; `url` is what Celery takes it to be."""
        return super().connection_for_read(self._ours(), **options)

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        """As `connection_for_read`."""
        return super().connection_for_write(self._ours(), **options)

    def _ours(self) -> str:
        self.conf.get("broker_url")  # has the settings read, the first time
        return self.own_broker


app = JobsApp("tinymemory", set_as_current=False)
runtimes = RuntimeHolder(app)
register_tasks(app, runtimes)
extend_workers(app, runtimes)
add_pulse(app)
add_metrics(app)


@app.on_configure.connect
def configure(sender: JobsApp, **_: Any) -> None:
    """Read the settings, now that somebody needs them."""
    settings = runtimes.settings = WorkerSettings.load()
    sender.own_broker = kombu_broker(settings.broker_url).url
    shown = {"broker_url": without_password(sender.own_broker)}
    sender.config_from_object(celery_configuration(settings) | shown)
