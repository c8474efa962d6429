"""For processes under test: a wall clock that is `CLOCK_OFF_BY` seconds off, as on a badly set machine.

Python imports this by itself, before anything else, where this folder is on `PYTHONPATH`.
"""

import datetime
import os
import time
from typing import Any

_SECONDS = float(os.environ.get("CLOCK_OFF_BY", "0"))
_true_time = time.time
_TrueDatetime = datetime.datetime


class _Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TrueDatetime)


class _Datetime(_TrueDatetime, metaclass=_Meta):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return _TrueDatetime.now(tz) + datetime.timedelta(seconds=_SECONDS)

    @classmethod
    def utcnow(cls) -> Any:
        return _Datetime.now(datetime.UTC).replace(tzinfo=None)


time.time = lambda: _true_time() + _SECONDS
datetime.datetime = _Datetime
