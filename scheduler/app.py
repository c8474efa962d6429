"""The Celery app with its beat schedule: `celery -A scheduler.app beat`."""

# pyright: reportUnknownMemberType=false
# Celery ships no types.

from scheduler.schedule import beat_configuration
from workers.app import app
from workers.settings import WorkerSettings

app.add_defaults(lambda: beat_configuration(WorkerSettings.load()))

__all__ = ["app"]
