"""The job layer: what is owed, in Redis; who does it, in Celery.

Importing it opens no connection, starts no thread and loads no Celery.
"""

from workers.client import MemoryJobs
from workers.identity import job_key
from workers.ledger import BatchProgress, Enqueued, EnqueueState, JobKey, JobState, JobStatus
from workers.settings import WorkerSettings

__all__ = [
    "BatchProgress",
    "EnqueueState",
    "Enqueued",
    "JobKey",
    "JobState",
    "JobStatus",
    "MemoryJobs",
    "WorkerSettings",
    "job_key",
]
