"""Where doorbells ring."""

from workers.ledger import Priority
from workers.routing import all_queues, message_priority, queue_of
from workers.settings import WorkerSettings


def test_the_default_profile_has_one_queue_for_each_type_of_job() -> None:
    assert queue_of("build_beliefs", "default") == "tinymemory.beliefs"
    assert queue_of("ingest_brain", "default") == "tinymemory.ingest"


def test_any_other_profile_has_queues_of_its_own() -> None:
    assert queue_of("build_beliefs", "cortexdb") == "tinymemory.beliefs.cortexdb"


def test_a_worker_without_a_choice_takes_every_queue_the_settings_know() -> None:
    settings = WorkerSettings(profiles={"slow": {}, "default": {}, "cortexdb": {}})

    assert all_queues(settings) == [
        "tinymemory.control",
        "tinymemory.beliefs",
        "tinymemory.ingest",
        "tinymemory.beliefs.cortexdb",
        "tinymemory.ingest.cortexdb",
        "tinymemory.beliefs.slow",
        "tinymemory.ingest.slow",
    ]


def test_urgent_is_the_least_number_to_redis_and_the_greatest_to_rabbitmq() -> None:
    redis = [
        message_priority(priority, redis_is_broker=True) for priority in (Priority.HIGH, Priority.NORMAL)
    ]
    rabbit = [
        message_priority(priority, redis_is_broker=False) for priority in (Priority.HIGH, Priority.NORMAL)
    ]

    assert redis == [0, 5]
    assert rabbit == [5, 0]
