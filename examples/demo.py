"""The main job, end to end: documents into the brain, conversations into memory, beliefs built behind them.

    python examples/demo.py            # `make demo`
    python examples/demo.py --keep     # leave it running, with Flower
    python examples/demo.py --engine cortex-local    # on a CortexDB from memory, whose facts come late

It starts what `tinymemory up` starts, in a folder of its own with short delays, and talks to it as
any host would.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tinymemory import (
    AgentMemory,
    BrainDocument,
    BrainSource,
    IngestBrain,
    MemoryLayout,
    Namespace,
    ToolCallRef,
    Turn,
)
from tinymemory.config import MemoryConfig
from workers import Enqueued, MemoryJobs, WorkerSettings
from workers.access import open_ledger
from workers.ledger import HistoryView, JobView, Ledger, StatsView

HERE = Path(__file__).parent
ROOT = Namespace.parse("team:harbour-kitchens")
QUESTION = "Where does Inês Duarte live, and what is she allergic to?"
# Short delays, so that a demonstration fits a minute: in production a build waits five minutes.
DELAYS = {
    "TINYMEMORY_BUILD_DELAY": "3",
    "TINYMEMORY_IDLE_DELAY": "4",
    "TINYMEMORY_BUILD_MAX_WAIT": "10",
    "TINYMEMORY_SWEEP_INTERVAL": "1",
}
# On CortexDB a turn is a request and its fact comes later: builds wait until all are there.
DELAYS_BEHIND_FACTS = {
    "TINYMEMORY_BUILD_DELAY": "12",
    "TINYMEMORY_IDLE_DELAY": "12",
    "TINYMEMORY_BUILD_MAX_WAIT": "20",
}
MOST_SECONDS = 50.0
console = Console()


@dataclass
class Tally:
    """What the demonstration did, for its last table."""

    started: float = field(default_factory=monotonic)
    turns: int = 0
    enqueued: int = 0
    merged: int = 0

    def count(self, reports: Iterable[Enqueued]) -> None:
        """Add what one call enqueued."""
        for report in reports:
            self.enqueued += 1
            self.merged += report.state == "merged"


def main(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running and print Flower's URL.")
    ] = False,
    flower_port: Annotated[int, typer.Option(help="Where Flower listens.")] = 5555,
    engine: Annotated[str, typer.Option(help="sqlite, or cortex-local.")] = "sqlite",
) -> None:
    """Show the whole path on an embedded broker and the embedded engine, or a CortexDB from memory."""
    with (
        tempfile.TemporaryDirectory(prefix="tinymemory-demo-") as folder,
        _everything_up(Path(folder), flower_port, engine) as state,
    ):
        failures = asyncio.run(_demonstrate(Tally()))
        if keep:
            _wait_for_ctrl_c(state)
    if failures:
        for failure in failures:
            console.print(f"[red]failed:[/red] {failure}")
        raise typer.Exit(1)


async def _demonstrate(tally: Tally) -> list[str]:
    settings = WorkerSettings.load()
    layout = MemoryLayout(ROOT)
    async with (
        MemoryConfig.from_env().build() as engine,
        MemoryJobs.from_env() as jobs,
        open_ledger(settings) as ledger,
    ):
        agents = {name: AgentMemory(engine, layout, name) for name in ("support-01", "ops-02")}
        await _ingest(jobs, tally)
        await _converse(agents, jobs, tally)
        if engine.descriptor.id == "cortexdb":
            await _show_why_builds_wait(agents["ops-02"])

        support = agents["support-01"]
        console.print(f"\n[bold]{QUESTION}[/bold]")
        before = await support.recall(QUESTION)
        console.print(Panel(Markdown(before.markdown), title="What memory says before any belief is built"))
        await _watch_until_done(ledger)
        after = await support.recall(QUESTION)
        console.print(Panel(Markdown(after.markdown), title="What it says with them"))

        return _summarise(tally, await ledger.history(limit=1000), before.markdown, after.markdown)


async def _ingest(jobs: MemoryJobs, tally: Tally) -> None:
    documents = [
        BrainDocument(
            source=BrainSource("markdown" if path.suffix == ".md" else "files"),
            title=path.stem.replace("-", " ").capitalize(),
            text=path.read_text(encoding="utf-8"),
        )
        for path in sorted((HERE / "corpus").iterdir())
    ]
    tasks = [IngestBrain(documents=(document,)) for document in documents]
    accepted = await jobs.enqueue(tasks, root=ROOT)
    tally.count(accepted)
    with _progress("documents ingested", len(accepted)) as advance:
        for one in accepted:
            await jobs.wait(one.key, timeout=MOST_SECONDS)
            advance()


async def _converse(agents: dict[str, AgentMemory], jobs: MemoryJobs, tally: Tally) -> None:
    lines = (HERE / "conversation.jsonl").read_text(encoding="utf-8").splitlines()
    turns = [json.loads(line) for line in lines]
    with _progress("turns remembered", len(turns)) as advance:
        for turn in turns:
            memory, thread, index = agents[turn["agent"]], turn["thread"], turn["turn"]
            at = datetime.fromisoformat(turn["at"])
            if index == 0:
                await memory.start_session(thread, focus=turn["text"])
            if turn["role"] == "user":
                context = await memory.pre_turn(thread, index, turn["text"], at=at)
                if context.log_error:
                    console.print(
                        f"[yellow]turn {index} of {thread} was not logged: {context.log_error}[/yellow]"
                    )
            else:
                calls = [ToolCallRef(**call) for call in turn.get("tool_calls", ())]
                report = await memory.post_turn(thread, index, turn["text"], tool_calls=calls, at=at)
                tally.count(await jobs.after_turn(memory, report))
            tally.turns += 1
            advance()
    last = turns[-1]
    dropped = [
        Turn(role=turn["role"], text=turn["text"]) for turn in turns if turn["thread"] == last["thread"]
    ][:4]
    carried = await agents[last["agent"]].recall_for_compaction(last["thread"], dropped)
    console.print(f"compaction of {last['thread']}: {carried.tokens} tokens carried over")


async def _show_why_builds_wait(memory: AgentMemory) -> None:
    """Build right behind the last write: its fact is still being extracted."""
    where = f"{memory.layout.conversations(memory.agent_id)}/app:conversations"
    url = f"{os.environ['TINYMEMORY_CORTEXDB_ENDPOINT']}/v1/beliefs/build"
    headers = {"Authorization": f"Bearer {os.environ['TINYMEMORY_CORTEXDB_API_KEY']}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as client:
        answer = (await client.post(url, json={"scope": f"app:tinymemory/{where}"})).json()
    console.print(
        f"a build right behind the last write builds {answer['built']} beliefs of {answer['events_scanned']} "
        f"events, because of {answer['reasons']}: so the worker's builds wait"
    )


async def _watch_until_done(ledger: Ledger) -> None:
    with Live(console=console, refresh_per_second=4) as live:
        deadline = monotonic() + MOST_SECONDS
        while monotonic() < deadline:
            owed = await ledger.jobs(limit=20)
            live.update(_ledger_table(owed, await ledger.stats()))
            if not owed:
                return
            await asyncio.sleep(0.25)


def _summarise(tally: Tally, runs: list[HistoryView], before: str, after: str) -> list[str]:
    outcomes = Counter(run.outcome.value for run in runs)
    built = sum(run.built or 0 for run in runs)
    summary = Table(title="What happened", show_header=False)
    for name, value in (
        ("turns", tally.turns),
        ("jobs enqueued", tally.enqueued),
        ("of them into one that waited", tally.merged),
        (
            "jobs run, ingests' builds too",
            ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())),
        ),
        ("beliefs built", built),
        ("seconds", f"{monotonic() - tally.started:.1f}"),
    ):
        summary.add_row(name, str(value))
    console.print(summary)
    failures = [f"{run.key}: {run.outcome.value} {run.error or ''}" for run in runs if run.error]
    if not built:
        failures.append("no belief was built")
    if "## Learnings" in before or "## Learnings" not in after:
        failures.append("the beliefs do not lead the pack's Learnings")
    return failures


@contextmanager
def _everything_up(folder: Path, flower_port: int, engine: str) -> Generator[dict[str, Any]]:
    os.environ.update(DELAYS, TINYMEMORY_DATA_DIR=str(folder))
    if engine == "cortex-local":
        os.environ.update(DELAYS_BEHIND_FACTS)
    for name in ("TINYMEMORY_REDIS_URL", "TINYMEMORY_BROKER_URL", "TINYMEMORY_ENGINE"):
        os.environ.pop(name, None)  # the demonstration is of the embedded default, whatever is configured
    log = folder / "up.log"
    command = [sys.executable, "-m", "tinymemory", "up", "--json", "--flower-port", str(flower_port)]
    command += ["--engine", engine]
    with log.open("wb") as output, console.status("starting broker, worker, beat and Flower"):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output)
        assert process.stdout is not None
        ready = process.stdout.readline()
    try:
        if not ready:
            console.print(log.read_text(errors="replace")[-2000:], markup=False)
            raise typer.Exit(process.wait() or 1)
        state = json.loads(ready)
        os.environ.update(state["environment"])
        console.print(f"broker, worker and beat are up; Flower at {state['flower_url']}")
        yield state
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


@contextmanager
def _progress(what: str, total: int) -> Generator[Callable[[], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def _ledger_table(owed: list[JobView], stats: StatsView) -> Table:
    title = f"The ledger: {stats.waiting} waiting, {stats.running} running, {stats.done_total} done"
    rows = Table(title=title, min_width=72)
    for heading in ("scope", "state", "due", "merged"):
        rows.add_column(heading)
    for job in owed:
        seconds = (job.due_at - datetime.now(UTC)).total_seconds()
        due = f"in {seconds:.1f} s" if seconds > 0 else "now"
        rows.add_row(job.scope, job.state.value, due, str(job.merged))
    return rows


def _wait_for_ctrl_c(state: dict[str, Any]) -> None:
    console.print(
        f"\nStill running. Flower: {state['flower_url']}\n"
        "From another terminal: "
        f"TINYMEMORY_DATA_DIR={os.environ['TINYMEMORY_DATA_DIR']} tinymemory jobs history\n"
        "Ctrl-C ends it."
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        console.print("stopping")


if __name__ == "__main__":
    typer.run(main)
