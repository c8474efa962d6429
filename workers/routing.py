"""Which queue a job's doorbell rings in, and how loud."""

from workers.ledger.jobs import Priority
from workers.settings import DEFAULT_PROFILE, WorkerSettings

BELIEFS_QUEUE = "tinymemory.beliefs"
INGEST_QUEUE = "tinymemory.ingest"
CONTROL_QUEUE = "tinymemory.control"

BUILD_BELIEFS = "build_beliefs"
INGEST_BRAIN = "ingest_brain"
QUEUE_BY_TYPE = {BUILD_BELIEFS: BELIEFS_QUEUE, INGEST_BRAIN: INGEST_QUEUE}

PRIORITY_STEPS = (0, 5)
"""The two lists Redis keeps for each queue, the urgent one first."""
MAX_PRIORITY = 5
"""What RabbitMQ's queues are declared with (`x-max-priority`)."""


def queue_of(job_type: str, profile: str) -> str:
    """The queue of a job: its type's for the profile `default`, and one of its own for any other.

    So a slow engine's jobs wait for the workers that are given its queue, and hold up nobody else's.
    """
    queue = QUEUE_BY_TYPE[job_type]
    return queue if profile == DEFAULT_PROFILE else f"{queue}.{profile}"


def job_queues(settings: WorkerSettings) -> list[str]:
    """Every queue jobs may be in: those of the profile `default` first, then by profile's name."""
    profiles = [DEFAULT_PROFILE, *sorted(settings.profiles.keys() - {DEFAULT_PROFILE})]
    return [queue_of(job_type, profile) for profile in profiles for job_type in QUEUE_BY_TYPE]


def all_queues(settings: WorkerSettings) -> list[str]:
    """What a worker without `-Q` takes: control first, then every job queue."""
    return [CONTROL_QUEUE, *job_queues(settings)]


def message_priority(priority: Priority, *, redis_is_broker: bool) -> int:
    """The number Celery is given: Redis serves 0 first, RabbitMQ the greatest."""
    urgent = priority is Priority.HIGH
    return PRIORITY_STEPS[0 if urgent else 1] if redis_is_broker else MAX_PRIORITY if urgent else 0
