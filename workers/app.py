"""The Celery app of the job layer: `celery -A workers.app worker`.

It is never the process's current app, so that a host's own Celery stays as it is, and it reads the
settings and opens connections when it is first used, not when it is imported.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

from typing import Any

from celery import Celery

from workers.configuration import celery_configuration
from workers.metrics_step import add_metrics
from workers.pulse import add_pulse
from workers.runtime import RuntimeHolder
from workers.settings import WorkerSettings
from workers.tasks import register_tasks
from workers.worker_steps import extend_workers

app = Celery("tinymemory", set_as_current=False)
runtimes = RuntimeHolder(app)
register_tasks(app, runtimes)
extend_workers(app, runtimes)
add_pulse(app)
add_metrics(app)


@app.on_configure.connect
def configure(sender: Celery, **_: Any) -> None:
    """Read the settings, now that somebody needs them."""
    runtimes.settings = WorkerSettings.load()
    sender.config_from_object(celery_configuration(runtimes.settings))
