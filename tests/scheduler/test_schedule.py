"""When the beat asks for what."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery

from scheduler.schedule import beat_configuration, beat_schedule, leadership_seconds
from workers.settings import WorkerSettings

ZONES = [
    "UTC",
    "Europe/Vienna",
    "America/New_York",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Nuuk",
    "Atlantic/Azores",
]


@pytest.mark.parametrize("zone", ZONES)
def test_the_nightly_build_comes_once_every_day_of_the_year(zone: str) -> None:
    app: Any = Celery(set_as_current=False)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    app.conf.timezone = zone
    crontab: Any = beat_schedule(WorkerSettings.load(timezone=zone))["full_build"]["schedule"]
    crontab.app = app
    crontab.nowfun = lambda: now
    last, nights = now, list[datetime]()

    while now < datetime(2027, 1, 1, tzinfo=UTC):
        due, wait = crontab.is_due(last)
        if due:
            last = now
            nights.append(now.astimezone(ZoneInfo(zone)))
        now += timedelta(seconds=min(max(wait, 1.0), 3600.0))

    dates = [night.date() for night in nights]
    assert len(dates) == len(set(dates))
    assert (dates[-1] - dates[0]).days == len(dates) - 1
    assert len(dates) >= 364
    assert {night.hour for night in nights} == {4}


def test_every_message_expires_after_one_interval_and_goes_to_the_control_queue() -> None:
    settings = WorkerSettings.load(sweep_interval=60.0, reap_interval=30.0, probe_interval=20.0)

    schedule = beat_schedule(settings)

    assert {name: entry["options"]["expires"] for name, entry in schedule.items()} == {
        "sweep": 60.0,
        "reap": 30.0,
        "probe": 20.0,
        "full_build": 86_400.0,
        "prune": 86_400.0,
    }
    assert {entry["options"]["queue"] for entry in schedule.values()} == {"tinymemory.control"}


@pytest.mark.parametrize("interval", [0.5, 1.0, 60.0, 3600.0])
def test_another_beat_takes_over_within_a_minute_and_two_intervals(interval: float) -> None:
    seconds = leadership_seconds(WorkerSettings.load(sweep_interval=interval))

    assert seconds <= 60.0
    assert seconds * 4 / 3 <= max(2 * interval, 1.0)


def test_what_flower_shows_of_the_beat_has_no_password() -> None:
    conf = beat_configuration(WorkerSettings.load(redis_url="redis://:s3cret@host:6379/0"))

    assert "s3cret" not in str(conf)
