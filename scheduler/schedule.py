"""What the beat asks for, and how often."""

from datetime import timedelta
from typing import Any

from celery.schedules import crontab

from workers.redaction import without_password
from workers.routing import CONTROL_QUEUE
from workers.settings import WorkerSettings

DAY = 86_400.0
NIGHTLY_HOUR = 4
"""No zone moves its clocks between four and five, so that this hour comes once every day."""
LONGEST_LEADERSHIP = 30.0
"""How long a beat that fell silent keeps the others from taking over, at most."""


def beat_configuration(settings: WorkerSettings) -> dict[str, Any]:
    """Celery's settings for a beat."""
    return {
        "beat_schedule": beat_schedule(settings),
        "beat_scheduler": "scheduler.beat:SafeScheduler",
        "beat_max_loop_interval": leadership_seconds(settings) / 3,
        "redbeat_key_prefix": f"{settings.key_prefix}beat:",
        # RedBeat's own lock ends the beat whenever it lapses; see scheduler.beat.
        "redbeat_lock_key": None,
        # For people to read: the client is made from the settings, and Flower shows this.
        "redbeat_redis_url": without_password(settings.redis_url),
        "redbeat_redis_options": {},
    }


def beat_schedule(settings: WorkerSettings) -> dict[str, Any]:
    """The periodic tasks.

    A message expires after one interval: two hundred missed sweeps are one when workers return.
    """
    nightly = crontab(hour=str(NIGHTLY_HOUR), minute="0")
    daily = crontab(hour=str(NIGHTLY_HOUR), minute="30")
    return {
        "sweep": _every(settings.sweep_interval, "tinymemory.sweep"),
        "reap": _every(settings.reap_interval, "tinymemory.reap"),
        "probe": _every(settings.probe_interval, "tinymemory.probe"),
        "full_build": _entry(nightly, "tinymemory.full_build", DAY),
        "prune": _entry(daily, "tinymemory.prune", DAY),
    }


def leadership_seconds(settings: WorkerSettings) -> float:
    """How long a beat leads without saying so again: within two sweep intervals another takes over."""
    return min(LONGEST_LEADERSHIP, max(0.6, 1.2 * settings.sweep_interval))


def _every(seconds: float, task: str) -> dict[str, Any]:
    return _entry(timedelta(seconds=seconds), task, seconds)


def _entry(schedule: object, task: str, interval: float) -> dict[str, Any]:
    return {"task": task, "schedule": schedule, "options": {"queue": CONTROL_QUEUE, "expires": interval}}
