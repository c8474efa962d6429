"""A disk without room, for the process that a test runs in or for one that it starts."""

import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def full_disk(size: int) -> Generator[None]:
    """No file that this process writes grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def with_full_disk(size: int) -> Callable[[], None]:
    """The same for a subprocess, as its `preexec_fn`."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
