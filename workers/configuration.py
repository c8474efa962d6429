"""How Celery is set up for us, and what a worker refuses to start with.

Source: https://docs.celeryq.dev/en/stable/userguide/configuration.html
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from kombu.entity import Exchange, Queue

from tinymemory.errors import ConfigError
from workers.broker import kombu_broker
from workers.doorbell import PUBLISH_RETRIES
from workers.routing import CONTROL_QUEUE, MAX_PRIORITY, PRIORITY_STEPS, all_queues
from workers.settings import WorkerSettings

EXCHANGE = "tinymemory"
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0
"""How long the broker may take over one answer: what bounds a publish when it stalls."""
HOUR = 3600.0
_ASKED = ("-Pprefork", "--pool=prefork", ("-P", "prefork"), ("--pool", "prefork"))


def celery_configuration(settings: WorkerSettings) -> dict[str, Any]:
    """Every Celery setting that is not Celery's default."""
    return {
        "broker_url": kombu_broker(settings.broker_url).url,
        "broker_transport_options": _transport_options(settings),
        "broker_connection_timeout": CONNECT_SECONDS,
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        # JSON alone, in both directions: anything else on the wire can name code to run.
        "task_serializer": "json",
        "event_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        # The ledger holds the outcome; a result backend would be a second truth.
        "result_backend": None,
        "task_ignore_result": True,
        "result_expires": None,
        "worker_send_task_events": True,
        "task_send_sent_event": False,
        "worker_prefetch_multiplier": 1,
        **_acknowledgement(settings),
        "task_reject_on_worker_lost": False,
        "task_publish_retry": True,
        "task_publish_retry_policy": PUBLISH_RETRIES,
        "task_default_queue": CONTROL_QUEUE,
        "task_default_exchange": EXCHANGE,
        "task_default_routing_key": CONTROL_QUEUE,
        "task_queues": _queues(settings),
        "task_create_missing_queues": True,
        "control_exchange": "tinymemory.pidbox",
        "event_exchange": "tinymemory.celeryev",
        "event_queue_prefix": "tinymemory.celeryev",
        "worker_pool": pool_asked_for(sys.argv),
        "worker_concurrency": 8,
        "worker_consumer": "workers.consumer:Consumer",
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "enable_utc": True,
        "timezone": settings.timezone,
    }


def pool_asked_for(argv: Sequence[str]) -> str:
    """The default pool, `threads`, unless a command line asks for `prefork`.

    Celery's own command takes `--pool prefork` for "nothing was said" and then uses the configured
    pool; every other pool it tells apart itself.
    """
    asked = any(word in _ASKED for word in argv) or any(pair in _ASKED for pair in pairwise(argv))
    return "prefork" if asked else "threads"


def ensure_visibility(conf: Mapping[str, Any], settings: WorkerSettings) -> None:
    """Refuse a broker that hands a doorbell out again while its job may still run.

    Raises:
        ConfigError: The visibility timeout is not above `job_timeout`.
    """
    if not settings.redis_is_broker:
        return
    visibility = float(conf["broker_transport_options"].get("visibility_timeout", HOUR))
    if visibility <= settings.job_timeout:
        raise ConfigError(
            f"the broker's visibility timeout ({visibility:g} s) must be above job_timeout"
            f" ({settings.job_timeout:g} s): raise the one or lower the other"
        )


def ensure_no_other_broker(argv: Sequence[str], settings: WorkerSettings) -> None:
    """Refuse `celery --broker URL`, which would change nothing: the broker is the settings'.

    Raises:
        ConfigError: The command line names another broker.
    """
    named = [value for option, value in pairwise(argv) if option in ("-b", "--broker")]
    named += [word.partition("=")[2] for word in argv if word.startswith("--broker=")]
    if any(url != settings.broker_url for url in named):
        raise ConfigError(
            "--broker is not read: name the broker by TINYMEMORY_BROKER_URL or TINYMEMORY_REDIS_URL"
        )


def ensure_keeps_keys(memory: Mapping[str, Any]) -> None:
    """Refuse a ledger whose keys Redis may drop; `memory` is what `INFO memory` answers.

    Raises:
        ConfigError: The eviction policy is not `noeviction`.
    """
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise ConfigError(
            f"the ledger's Redis has maxmemory-policy {policy}, which drops jobs when memory is short:"
            " set it to noeviction"
        )


def ensure_pool_grows(worker: Any) -> None:
    """Refuse `--autoscale` for a pool of one size: Celery would trip over each message.

    Raises:
        ConfigError: The pool of the worker cannot grow.
    """
    if worker.autoscale and not hasattr(worker.pool, "grow"):
        raise ConfigError("--autoscale needs --pool prefork: the other pools have one size, --concurrency")


def _transport_options(settings: WorkerSettings) -> dict[str, Any]:
    if not settings.redis_is_broker:
        return {"confirm_publish": True, "confirm_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
    return {
        **kombu_broker(settings.broker_url).options,
        "visibility_timeout": settings.visibility_timeout or max(HOUR, 2 * settings.job_timeout),
        "priority_steps": list(PRIORITY_STEPS),
        "queue_order_strategy": "priority",
        "socket_timeout": ANSWER_SECONDS,
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_keepalive": True,
        # Under names of our own: Celery's defaults are shared by every app on the same database, and
        # whose visibility timeout is shorter would give the others' messages out twice.
        "unacked_key": "tinymemory.unacked",
        "unacked_index_key": "tinymemory.unacked_index",
        "unacked_mutex_key": "tinymemory.unacked_mutex",
    }


def _acknowledgement(settings: WorkerSettings) -> dict[str, Any]:
    if settings.redis_is_broker:
        # A worker takes a message only while it has a free slot, so that none waits behind a long run.
        return {"task_acks_late": False, "worker_disable_prefetch": True}
    # RabbitMQ pushes the next message as soon as one is acknowledged: acknowledged at its start, a
    # run would have another wait behind it here while other workers are idle.  The token refuses
    # what is redelivered, so the later acknowledgement changes nothing else.
    return {"task_acks_late": True, "task_queue_max_priority": MAX_PRIORITY}


def _queues(settings: WorkerSettings) -> list[Queue]:
    exchange = Exchange(EXCHANGE, type="direct")
    return [Queue(name, exchange, routing_key=name) for name in all_queues(settings)]
