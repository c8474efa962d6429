"""Ringing for claimed jobs: what is left of a broker that was away."""

from pathlib import Path

from celery import Celery

from workers.doorbell import BrokerBell
from workers.routing import BELIEFS_QUEUE
from workers.testing import RedisServer


def test_a_queue_is_counted_again_once_the_broker_is_back(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        app = Celery("bell", broker=server.url, set_as_current=False)
        bell = BrokerBell(app, redis_is_broker=True)
        before = bell.depth(BELIEFS_QUEUE)
        server.kill()
        away = [bell.depth(BELIEFS_QUEUE) for _ in range(2)]
        server.start()

        back = bell.depth(BELIEFS_QUEUE)
        app.close()

    assert (before, away, back) == (0, [None, None], 0)
