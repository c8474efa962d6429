"""An incident as an operator lives through it: found, mended and closed by the command line alone."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Live, build, until

from workers.ledger import JobState

ARTIFACTS = Path(__file__).parents[2] / "artifacts"


class Transcript:
    """Runs commands and keeps what was typed and what came back."""

    def __init__(self, layer: Live) -> None:
        self._layer = layer
        self.lines: list[str] = []

    async def run(self, *arguments: str, code: int = 0) -> str:
        """What the command printed, people's form."""
        done = await asyncio.to_thread(self._layer.programs.run, *arguments, COLUMNS="110")
        assert done.returncode == code, done.stderr
        said = (done.stdout + done.stderr).rstrip()
        self.lines += [f"$ tinymemory {' '.join(arguments)}", *(line.rstrip() for line in said.splitlines())]
        self.lines += [f"[exit {code}]", ""] if code else [""]
        return said

    def note(self, text: str) -> None:
        """What happens outside meanwhile."""
        self.lines += [f"# {text}", ""]

    def write(self, name: str) -> None:
        """Keep it with what CI keeps."""
        ARTIFACTS.mkdir(exist_ok=True)
        (ARTIFACTS / name).write_text("\n".join(self.lines))


@pytest.mark.timeout(300)  # eight commands, each a process of its own
async def test_a_tenant_without_credit_is_found_parked_and_resumes_and_a_dead_letter_is_retried(
    live: Callable[..., Live],
) -> None:
    layer = live(probe_interval=0.5, probe_cap=1.0)
    layer.stub.behave(
        "team:poor",
        error="InsufficientCreditsError",
        message="the account is out of credits",
        health="the account is out of credits",
    )
    layer.stub.behave("team:odd/agent:a", error="ConfigError", message="no collection named `odd`")
    layer.programs.start_together(("worker",), ("beat",))
    operator = Transcript(layer)
    poor = await layer.enqueue(*(build(f"team:poor/agent:a{n}") for n in range(3)), root="team:poor")
    odd = await layer.one(build("team:odd/agent:a"), root="team:odd")
    rich = await layer.one(build("team:rich/agent:a"), root="team:rich")
    await layer.wait_over(odd.key, rich.key)

    async def parked() -> bool:
        async with layer.ledger() as ledger:
            return (await ledger.stats()).parked == 3

    await until(parked)

    operator.note("the pager rings: TinyMemoryTenantsParked and TinyMemoryDeadLetters")
    doctor = await operator.run("doctor")
    assert "3 jobs parked" in doctor
    assert "dead letters" in doctor
    assert "the account is out of credits" in await operator.run("jobs", "stats")
    owed = await operator.run("jobs", "list", "--root", "team:poor")
    assert owed.count("parked") == 3

    operator.note("the tenant pays; nobody touches the jobs")
    layer.stub.behave("team:poor")

    assert {status.state for status in await layer.wait_over(*(one.key for one in poor))} == {JobState.DONE}
    assert "nothing is owed" in await operator.run("jobs", "list", "--root", "team:poor")
    ran = await operator.run("jobs", "history", "--root", "team:poor", "--limit", "3")
    assert ran.count(" done ") == 3
    async with layer.ledger() as ledger:
        assert await ledger.breakers() == []

    operator.note("the other one: a dead letter, whose cause is mended first")
    assert "no collection named `odd`" in await operator.run("jobs", "dead")
    layer.stub.behave("team:odd/agent:a")
    await operator.run("jobs", "retry", odd.key)
    await layer.wait_over(odd.key)
    await operator.run("jobs", "history", "--root", "team:odd")
    assert "no dead letters" in await operator.run("jobs", "dead")
    async with layer.ledger() as ledger:
        mended = await ledger.show(odd.key)
    assert mended is not None
    assert (mended.state, mended.attempts) == (JobState.DONE, 1)
    operator.write("incident.txt")
