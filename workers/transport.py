"""The Redis transport, made to survive what is no message at all.

Kombu parses what it takes from a list before anyone can object, and an error there ends the worker
with the item gone.  Here such an item is handed to a callback, and the worker goes on.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

from collections.abc import Callable
from json import JSONDecodeError
from queue import Empty
from typing import Any

from kombu.connection import Connection
from kombu.transport import redis, virtual

OnGarbage = Callable[[str, str, Exception], None]
"""Called with the queue, the raw text and what was wrong with it."""


def tolerate_garbage(connection: Connection, on_garbage: OnGarbage) -> None:
    """Have this connection, which is not open yet, hand over what it cannot read.

    Only Redis needs it: with RabbitMQ the frame and the message are told apart by the broker.
    """
    transport: Any = connection.get_transport_cls()
    if issubclass(transport, redis.Transport):
        tolerant = _tolerant(transport, on_garbage)
        # Not `transport_cls`, which is also the scheme of the URL in log lines.
        connection.get_transport_cls = lambda: tolerant


def _tolerant(transport: Any, on_garbage: OnGarbage) -> Any:
    class Channel(transport.Channel):
        def _brpop_read(self, **options: Any) -> Any:
            try:
                return super()._brpop_read(**options)
            except (JSONDecodeError, UnicodeDecodeError) as error:
                text = error.doc if isinstance(error, JSONDecodeError) else repr(error.object)
                on_garbage("", text, error)
            except RecursionError as error:
                on_garbage("", "", error)
            raise Empty

    class Transport(transport):
        def _deliver(self, message: Any, queue: str) -> None:
            try:
                _ensure_complete(virtual.Message(message, channel=next(iter(self.channels))))
            except Exception as error:  # it may lack anything, or be a number
                on_garbage(queue, repr(message), error)
            else:
                super()._deliver(message, queue)

    Transport.Channel = Channel
    return Transport


def _ensure_complete(message: Any) -> None:
    """Raise unless it holds what Kombu reads later, where a `KeyError` is taken for an empty queue."""
    route = message.delivery_info["exchange"], message.delivery_info["routing_key"]
    if not all(isinstance(text, str) for text in (message.delivery_tag, *route)):
        raise TypeError("the delivery tag or the route is no text")
