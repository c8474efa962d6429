"""A beat that ends when it is told to, whatever it does at that moment.

Celery's own raises SystemExit out of its signal handler and relies on it alone.  Where Python happens to
run a callback of its own, as when a weak reference dies, the exception is printed and dropped, and the
beat goes on for ever.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedBaseClass=false
# Celery ships no types.

import signal
from types import FrameType
from typing import Any

from celery.apps.beat import Beat


class EndingBeat(Beat):
    """Celery's beat with a stop that is noted as well as raised."""

    def install_sync_handler(self, service: Any) -> None:
        """Let SIGTERM and SIGINT end the service: at once, or behind the tick that is under way."""
        told, tick = service._is_shutdown, service.scheduler.tick

        def tick_unless_told() -> float:
            seconds = tick()
            return 0.0 if told.is_set() else seconds  # not to sleep first

        def end(signum: int, frame: FrameType | None) -> None:
            told.set()
            raise SystemExit

        service.scheduler.tick = tick_unless_told
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
