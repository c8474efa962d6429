"""Flower, where its own handlers fall short of what its login promises."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false, reportMissingParameterType=false
# Flower ships no types.

from flower import urls
from flower.views.monitor import Metrics
from tornado.web import authenticated

METRICS = "/metrics"


class GuardedMetrics(Metrics):
    """Flower's metrics, behind the login when there is one.

    Flower serves them to everyone: https://github.com/mher/flower/issues/1342
    """

    @authenticated
    async def get(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator widens it
        """The exposition, for whoever may see the pages."""
        await super().get()


def guard_metrics() -> None:
    """Put the guarded handler in the place of Flower's, for the application started next."""
    urls.handlers[:] = [
        (METRICS, GuardedMetrics) if isinstance(entry, tuple) and entry[0] == METRICS else entry
        for entry in urls.handlers
    ]
