"""What the parts of the benchmark share: the server, what was found, and whether it is enough."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis

from tinymemory import BuildBeliefs, ConsolidateRequest, Reach
from workers import WorkerSettings
from workers.testing import RedisServer


@dataclass(frozen=True, slots=True)
class Target:
    """One figure that has to be reached."""

    name: str
    found: float
    wanted: float
    at_least: bool = True

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted


@dataclass(slots=True)
class Results:
    """What was measured."""

    rates: dict[str, float] = field(default_factory=dict[str, float])
    """Jobs a second, by who was measured."""
    targets: list[Target] = field(default_factory=list[Target])

    def target(self, name: str, found: float, wanted: float, *, at_least: bool = True) -> None:
        """Note a figure, and say it at once."""
        target = Target(name, found, wanted, at_least)
        self.targets.append(target)
        sign = ">=" if at_least else "<="
        print(f"  {'ok  ' if target.is_met else 'MISS'} {name}: {found:.2f} ({sign} {wanted:g})", flush=True)


@dataclass(frozen=True, slots=True)
class Bench:
    """The server, and a folder for what the parts need."""

    server: RedisServer
    folder: Path
    million: int

    def settings(self, **values: Any) -> WorkerSettings:
        """Settings on that server, for no-op jobs."""
        return WorkerSettings.load(
            redis_url=self.server.url, engine_factory="benchmarks.jobs.targets:engine", **values
        )

    def empty(self) -> None:
        """Start anew."""
        with Redis(port=self.server.port) as client:
            client.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped


def build(number: int, root: str = "team:acme") -> BuildBeliefs:
    """The build of one agent."""
    return BuildBeliefs(request=ConsolidateRequest(reach=Reach.exact(f"{root}/agent:a{number}")))


def table(rates: Mapping[str, float]) -> None:
    """Print rates, the fastest first, also in units of plain Celery's."""
    unit = rates.get("celery") or rates.get("drain, celery") or 1.0
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        print(f"  {name:<26} {rate:>10,.0f}/s  {rate / unit:>6.2f}", flush=True)
