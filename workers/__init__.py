"""The job layer: what is owed, in Redis; who does it, in Celery."""
