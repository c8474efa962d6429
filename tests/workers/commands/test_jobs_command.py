from typing import Any

import pytest

JOB_FIELDS = {
    "key",
    "type",
    "root",
    "scope",
    "profile",
    "state",
    "due_at",
    "first_enqueued_at",
    "last_enqueued_at",
    "merged",
    "attempts",
    "losses",
    "error",
}
RUN_FIELDS = {
    "key",
    "type",
    "root",
    "scope",
    "profile",
    "outcome",
    "built",
    "scopes",
    "stored",
    "attempts",
    "merged",
    "waited_s",
    "ran_s",
    "lag_s",
    "worker",
    "finished_at",
    "error",
}
STATS_FIELDS = {
    "waiting",
    "due",
    "queued",
    "running",
    "parked",
    "dead",
    "oldest_due_age_s",
    "done_total",
    "retried_total",
    "throttled_total",
    "dead_total",
    "merged_total",
    "breakers",
    "spool",
}


def test_list_shows_what_is_owed_and_by_when(operator: Any, keys: Any) -> None:
    listed = operator.json("jobs", "list")

    assert [(job["key"], job["state"]) for job in listed] == [
        (keys.parked, "parked"),
        (keys.waiting, "waiting"),
    ]
    for job in listed:
        assert job.keys() >= JOB_FIELDS
    assert listed[0]["error"] == {
        "kind": "InsufficientCreditsError",
        "message": "the account is out of credits",
    }
    assert listed[1]["due_at"].endswith("Z")


def test_list_narrows_to_a_root_and_a_limit(operator: Any, keys: Any) -> None:
    assert [job["key"] for job in operator.json("jobs", "list", "--root", "team:acme")] == [keys.waiting]
    assert len(operator.json("jobs", "list", "--limit", "1")) == 1
    assert operator.json("jobs", "list", "--root", "team:nobody") == []


def test_a_table_keeps_scopes_whole(operator: Any, keys: Any) -> None:
    shown = operator.run("jobs", "list").stdout

    assert keys.waiting in shown
    assert "team:acme/agent:waiting [conversation]" in shown


def test_dead_letters_say_why(operator: Any, keys: Any) -> None:
    (letter,) = operator.json("jobs", "dead")

    assert letter["key"] == keys.dead
    assert letter["error"] == {"kind": "ConfigError", "message": "no engine is called nope"}
    assert "no engine is called nope" in operator.run("jobs", "dead").stdout


def test_history_has_a_record_for_each_run(operator: Any, keys: Any) -> None:
    runs = operator.json("jobs", "history")

    assert [(run["key"], run["outcome"]) for run in runs] == [
        (keys.parked, "retry"),
        (keys.dead, "dead"),
        (keys.done, "done"),
    ]
    assert runs[0].keys() >= RUN_FIELDS
    assert runs[2]["built"] == 3
    assert runs[2]["worker"] == "w1@host"
    assert [run["key"] for run in operator.json("jobs", "history", "--key", keys.done)] == [keys.done]


def test_stats_count_states_and_name_open_breakers(operator: Any, keys: Any) -> None:
    stats = operator.json("jobs", "stats")

    assert stats.keys() >= STATS_FIELDS
    assert (stats["waiting"], stats["parked"], stats["dead"], stats["done_total"]) == (1, 1, 1, 1)
    (breaker,) = stats["breakers"]
    assert {"profile", "root", "reason", "since", "next_probe_at", "parked"} <= breaker.keys()
    assert (breaker["root"], breaker["parked"]) == ("team:gamma", 1)
    assert stats["spool"] == {"files": 0, "lines": 0, "bytes": 0}


def test_stats_by_root_show_who_is_owed_what(operator: Any, keys: Any) -> None:
    owed = {one["root"]: one for one in operator.json("jobs", "stats", "--by-root")}

    assert owed["team:acme"]["waiting"] == 1
    assert owed["team:gamma"]["parked"] == 1


def test_show_knows_finished_jobs_too(operator: Any, keys: Any) -> None:
    assert operator.json("jobs", "show", keys.done)["state"] == "done"
    assert operator.json("jobs", "show", keys.waiting)["state"] == "waiting"
    assert "w1@host" in operator.run("jobs", "show", keys.done).stdout


@pytest.mark.parametrize("command", ["show", "run", "retry", "drop"])
def test_an_unknown_key_is_said_to_be_unknown(operator: Any, keys: Any, command: str) -> None:
    result = operator.run("jobs", command, "build:team:acme:ffffffffffffffffffff")

    assert result.exit_code == 4
    assert "build:team:acme:ffffffffffffffffffff" in result.stderr
    assert "jobs" in result.stderr


def test_run_makes_a_waiting_job_due_now(operator: Any, keys: Any) -> None:
    assert operator.run("jobs", "run", keys.waiting).exit_code == 0

    assert operator.json("jobs", "stats")["due"] == 1


def test_retry_revives_a_dead_letter(operator: Any, keys: Any) -> None:
    assert operator.json("jobs", "retry", keys.dead) == [{"key": keys.dead, "state": "waiting"}]

    assert operator.json("jobs", "dead") == []


def test_retrying_all_asks_first(operator: Any, keys: Any) -> None:
    unasked = operator.run("jobs", "retry", "--all")
    assert unasked.exit_code == 2
    assert "--yes" in unasked.stderr
    assert len(operator.json("jobs", "dead")) == 1

    assert operator.run("jobs", "retry", "--all", "--yes").exit_code == 0
    assert operator.json("jobs", "dead") == []


def test_retrying_all_of_another_root_touches_nothing(operator: Any, keys: Any) -> None:
    assert operator.run("jobs", "retry", "--all", "--root", "team:acme", "--yes").exit_code == 0

    assert len(operator.json("jobs", "dead")) == 1


def test_drop_cancels_for_good(operator: Any, keys: Any) -> None:
    assert operator.json("jobs", "drop", keys.waiting) == [{"key": keys.waiting, "state": "cancelled"}]

    assert operator.json("jobs", "show", keys.waiting)["state"] == "cancelled"


def test_dropping_several_asks_first(operator: Any, keys: Any) -> None:
    assert operator.run("jobs", "drop", keys.waiting, keys.parked).exit_code == 2
    assert operator.run("jobs", "drop", keys.waiting, keys.parked, "--yes").exit_code == 0
    assert operator.json("jobs", "list") == []


def test_erase_leaves_no_trace_of_a_tenant_and_all_of_the_others(operator: Any, keys: Any) -> None:
    assert operator.run("jobs", "erase", "--root", "team:acme", "--yes").exit_code == 0

    assert operator.json("jobs", "history", "--root", "team:acme") == []
    assert operator.run("jobs", "show", keys.done).exit_code == 4
    assert operator.json("jobs", "show", keys.parked)["state"] == "parked"


def test_a_malformed_root_is_refused_by_name(operator: Any, keys: Any) -> None:
    result = operator.run("jobs", "list", "--root", "acme")

    assert result.exit_code == 2
    assert "`acme`" in result.stderr


def test_a_redis_that_is_away_is_named_without_its_password(
    operator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYMEMORY_REDIS_URL", "redis://:hush-hush@127.0.0.1:1/0")

    result = operator.run("jobs", "list")

    assert result.exit_code == 75
    assert "127.0.0.1:1" in result.stderr
    assert "hush-hush" not in result.output


def test_nothing_owed_is_said_so_and_is_no_error(operator: Any) -> None:
    result = operator.run("jobs", "list")

    assert result.exit_code == 0
    assert "nothing is owed" in result.stderr
