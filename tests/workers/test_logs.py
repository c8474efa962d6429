import json
import logging

import pytest

from workers.commands.celery_logging import LogFormat
from workers.logs import formatter
from workers.redaction import Redactor


def rendered(form: LogFormat, message: str, *args: object, **fields: object) -> str:
    record = logging.LogRecord("workers.runs", logging.WARNING, __file__, 1, message, args, None)
    record.__dict__.update(fields)
    return formatter(form, Redactor(["hush-hush-secret"])).format(record)


def test_json_is_one_object_a_line_with_the_event_and_its_fields() -> None:
    line = rendered(LogFormat.JSON, "run_ended", key="build:team:acme:00", ran_s=1.5)

    assert "\n" not in line
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "run_ended",
        "level": "warning",
        "logger": "workers.runs",
        "key": "build:team:acme:00",
        "ran_s": 1.5,
    }


def test_text_shows_the_fields_too() -> None:
    line = rendered(LogFormat.TEXT, "run_ended", key="build:team:acme:00")

    assert "run_ended" in line
    assert "build:team:acme:00" in line
    assert "\n" not in line


@pytest.mark.parametrize("form", list(LogFormat))
def test_credentials_are_taken_out_of_messages_and_fields(form: LogFormat) -> None:
    line = rendered(form, "connected to redis://:pass-in-url@host/0", reason="api_key=hush-hush-secret")

    assert "pass-in-url" not in line
    assert "hush-hush-secret" not in line


@pytest.mark.parametrize("form", list(LogFormat))
def test_what_celery_attaches_of_a_tasks_arguments_is_left_out(form: LogFormat) -> None:
    line = rendered(form, "Task received", data={"args": "a customer's words"})

    assert "customer" not in line


def test_an_exception_stays_within_its_line_in_json() -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", (), (type(error), error, None))
    line = formatter(LogFormat.JSON, Redactor()).format(record)

    assert "\n" not in line
    assert "boom" in json.loads(line)["exception"]
