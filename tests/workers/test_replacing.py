import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from full_disk import full_disk
from typing_extensions import override

from tinymemory.brain import Brain, BrainDocument
from tinymemory.engine import MemoryEngine
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.sqlite import SqliteEngine
from tinymemory.errors import UnavailableError
from tinymemory.layout import MemoryLayout
from tinymemory.meta import MemoryMeta
from tinymemory.namespace import Namespace
from tinymemory.query import ForgetReport, ForgetTarget, GetRequest, Hit, ListRequest
from tinymemory.testing import cortex_server
from workers.journal import FileMark, Journal, Version
from workers.ledger import JobKey, JobState
from workers.replacing import STEP, Replacing

LAYOUT = MemoryLayout(Namespace.parse("team:acme"))
NOTE = "/notes/note.md"


@dataclass
class Desk:
    """An ingest at work: a journal, an engine, and ingests that are over unless a test says otherwise."""

    folder: Path
    states: dict[JobKey, JobState] = field(default_factory=dict[JobKey, JobState])
    asked: list[int] = field(default_factory=list[int])
    """Of how many jobs the states were asked for, each time."""

    def __post_init__(self) -> None:
        self.path = self.folder / "memory.db"
        self.engine = SqliteEngine(self.path)
        self.crash()

    def crash(self) -> None:
        """Forget all but what is on the disk."""
        self.journal = Journal(self.folder, "team:acme")
        self.replacing = self.looker(self.journal)

    def looker(
        self,
        journal: Journal,
        open_engine: Callable[[], MemoryEngine] | None = None,
        *,
        step_seconds: float = 60.0,
    ) -> Replacing:
        async def states_of(jobs: Iterable[JobKey]) -> dict[JobKey, JobState]:
            states = {job: self.states.get(job, JobState.DONE) for job in jobs}
            self.asked.append(len(states))
            return states

        return Replacing(
            journal,
            states_of=states_of,
            open_engine=open_engine or (lambda: SqliteEngine(self.path)),
            step_seconds=step_seconds,
        )

    def version(self, text: str, path: str = NOTE) -> Version:
        id_ = document(text, path).item(LAYOUT).fingerprint()
        return Version(id_, JobKey(f"ingest:team:acme:{id_[:20]}"))

    def begin(self, text: str, path: str = NOTE) -> Version:
        version = self.version(text, path)
        self.journal.begin([(mark(text, path), version)])
        return version

    def accept(self, text: str, path: str = NOTE) -> Version:
        version = self.begin(text, path)
        self.journal.accept([(mark(text, path), version)])
        return version

    async def store(self, text: str, path: str = NOTE) -> None:
        await Brain(self.engine, LAYOUT).ingest(document(text, path))

    async def ingest(self, text: str, path: str = NOTE) -> Version:
        version = self.accept(text, path)
        await self.store(text, path)
        return version

    async def texts(self) -> list[str]:
        page = await self.engine.list(ListRequest(limit=100))
        return [hit.text for hit in page.items]


def document(text: str, path: str) -> BrainDocument:
    return BrainDocument("files", text, meta=MemoryMeta(file_path=path))


def mark(text: str, path: str = NOTE) -> FileMark:
    return FileMark(path, len(text), hash(text))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.engine.aclose()


async def test_r66_a_changed_files_old_document_goes_once_its_new_one_is_stored(desk: Desk) -> None:
    await desk.ingest("one")
    desk.accept("two")

    await desk.replacing.run()
    before = await desk.texts()
    await desk.store("two")
    await desk.replacing.run()

    assert before == ["one"]
    assert await desk.texts() == ["two"]
    assert desk.replacing.replaced == [NOTE]
    assert desk.replacing.left == []


async def test_an_ingest_that_failed_leaves_the_old_document_and_nobody_waits_for_it(desk: Desk) -> None:
    await desk.ingest("one")
    new = desk.accept("two")
    desk.states[new.job] = JobState.DEAD

    await asyncio.wait_for(desk.replacing.run(seconds=600), timeout=30)

    assert await desk.texts() == ["one"]
    assert desk.replacing.left == [NOTE]


async def test_an_old_document_that_is_still_to_come_is_forgotten_after_it_came(desk: Desk) -> None:
    late = desk.accept("one")
    desk.states[late.job] = JobState.WAITING
    await desk.ingest("two")

    await desk.replacing.run()
    assert desk.replacing.left == [NOTE]
    await desk.store("one")
    desk.states[late.job] = JobState.DONE
    await desk.replacing.run()

    assert await desk.texts() == ["two"]
    assert desk.replacing.left == []


async def test_a_dead_ingest_of_an_old_document_is_looked_at_again_should_it_be_retried(desk: Desk) -> None:
    dead = desk.accept("one")
    desk.states[dead.job] = JobState.DEAD
    await desk.ingest("two")
    await asyncio.wait_for(desk.replacing.run(seconds=600), timeout=30)

    await desk.store("one")
    del desk.states[dead.job]
    await desk.replacing.run()

    assert await desk.texts() == ["two"]


async def test_r66_a_crash_between_store_and_forget_is_mended_by_the_next_run(desk: Desk) -> None:
    await desk.ingest("one")
    await desk.ingest("two")

    desk.crash()
    await desk.replacing.run()

    assert await desk.texts() == ["two"]


async def test_a_crash_between_handing_over_and_noting_it_leaves_no_version_unknown(desk: Desk) -> None:
    await desk.ingest("one")
    desk.begin("two")
    await desk.store("two")
    desk.crash()
    assert not desk.journal.accepted_as(mark("two"))

    await desk.ingest("three")
    await desk.replacing.run()

    assert await desk.texts() == ["three"]


async def test_a_version_that_was_never_accepted_replaces_nothing(desk: Desk) -> None:
    await desk.ingest("one")
    desk.begin("two")

    desk.crash()
    await desk.replacing.run()

    assert await desk.texts() == ["one"]
    assert not desk.journal.accepted_as(mark("one"))


async def test_a_file_changed_back_keeps_its_first_document_and_loses_the_second(desk: Desk) -> None:
    await desk.ingest("one")
    await desk.ingest("two")
    await desk.ingest("one")

    await desk.replacing.run()

    assert await desk.texts() == ["one"]


async def test_a_file_changed_back_after_it_was_replaced_is_replaced_again(desk: Desk) -> None:
    await desk.ingest("one")
    await desk.ingest("two")
    await desk.replacing.run()
    await desk.ingest("one")
    await desk.replacing.run()

    assert await desk.texts() == ["one"]


async def test_two_files_of_one_content_are_two_documents_and_only_the_changed_one_goes(desk: Desk) -> None:
    await desk.ingest("same")
    await desk.ingest("same", "/notes/copy.md")
    await desk.ingest("changed")

    await desk.replacing.run()

    assert await desk.texts() == ["same", "changed"]
    page = await desk.engine.list(ListRequest(limit=10))
    assert [hit.meta.file_path for hit in page.items] == ["/notes/copy.md", NOTE]


async def test_what_a_host_stored_under_the_same_path_stays(desk: Desk) -> None:
    await desk.store("the host's own")
    await desk.ingest("one")
    await desk.ingest("two")

    await desk.replacing.run()

    assert await desk.texts() == ["the host's own", "two"]


async def test_what_another_process_hands_over_again_meanwhile_is_not_forgotten(desk: Desk) -> None:
    await desk.ingest("one")
    await desk.ingest("two")
    other = Journal(desk.folder, "team:acme")
    other.begin([(mark("one"), desk.version("one"))])

    await desk.replacing.run()

    assert await desk.texts() == ["one", "two"]


async def test_r66_there_is_no_moment_at_which_neither_version_is_there(desk: Desk) -> None:
    new = desk.version("two")

    class Watched(SqliteEngine):
        @override
        async def forget(self, target: ForgetTarget) -> ForgetReport:
            assert await self.get(GetRequest(ids=(new.id,)))
            return await super().forget(target)

    await desk.ingest("one")
    await desk.ingest("two")
    replacing = desk.looker(desk.journal, lambda: Watched(desk.path))

    await replacing.run()

    assert await desk.texts() == ["two"]


async def test_an_engine_that_is_away_leaves_the_old_document_and_says_why(desk: Desk) -> None:
    def away() -> SqliteEngine:
        raise UnavailableError("the engine is away")

    await desk.ingest("one")
    await desk.ingest("two")
    replacing = desk.looker(desk.journal, away)

    await replacing.run()

    assert await desk.texts() == ["one", "two"]
    assert replacing.left == [NOTE]
    assert "the engine is away" in str(replacing.error)


class Hung(SqliteEngine):
    """Answers no read, or no forget."""

    def __init__(self, path: Path, what: str, reached: asyncio.Event) -> None:
        super().__init__(path)
        self._what = what
        self._reached = reached

    @override
    async def get(self, request: GetRequest) -> list[Hit]:
        return await self._hang("get") or await super().get(request)

    @override
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        return await self._hang("forget") or await super().forget(target)

    async def _hang(self, what: str) -> None:
        if what == self._what:
            self._reached.set()
            await asyncio.Event().wait()


@pytest.mark.parametrize("what", ["get", "forget"])
async def test_an_engine_that_hangs_is_given_up_and_others_may_send_again(desk: Desk, what: str) -> None:
    reached = asyncio.Event()
    await desk.ingest("one")
    await desk.ingest("two")
    replacing = desk.looker(desk.journal, lambda: Hung(desk.path, what, reached), step_seconds=0.3)

    looking = asyncio.create_task(replacing.run(seconds=600))
    await asyncio.wait_for(reached.wait(), timeout=30)
    await asyncio.wait_for(
        asyncio.to_thread(desk.journal.begin, [(mark("three"), desk.version("three"))]), timeout=30
    )
    await asyncio.wait_for(looking, timeout=30)

    assert "longer than 0.3 s" in str(replacing.error)
    assert await desk.texts() == ["one", "two"]


async def test_whoever_waits_for_its_turn_gives_up_too_and_leaves_no_lock_behind(desk: Desk) -> None:
    await desk.ingest("one")
    await desk.ingest("two")
    replacing = desk.looker(Journal(desk.folder, "team:acme"), step_seconds=0.2)

    async with desk.journal.alone():
        await asyncio.wait_for(replacing.run(seconds=600), timeout=30)
    assert replacing.left == [NOTE]
    await desk.replacing.run()

    assert await desk.texts() == ["two"]


async def test_nothing_is_forgotten_while_the_journal_cannot_be_written(desk: Desk) -> None:
    async with cortex_server("direct") as server:

        def connected() -> CortexEngine:
            return CortexEngine.direct(server.url, "key")

        async def stored() -> list[str]:
            page = await engine.list(ListRequest(limit=10))
            return sorted(hit.text for hit in page.items)

        async with connected() as engine:
            for text in ("one", "two"):
                desk.accept(text)
                await Brain(engine, LAYOUT).ingest(document(text, NOTE))
            (file,) = (desk.folder / "ingest").glob("*.jsonl")
            replacing = desk.looker(desk.journal, connected)
            with full_disk(file.stat().st_size):
                await asyncio.wait_for(replacing.run(seconds=600), timeout=30)
            with_a_full_disk = await stored()
            said = str(replacing.error)
            await replacing.run()
            afterwards = await stored()

    assert with_a_full_disk == ["one", "two"]
    assert str(file) in said
    assert afterwards == ["two"]
    assert replacing.error is None


async def test_two_who_accept_a_file_the_wrong_way_round_are_put_right_by_the_next_run(desk: Desk) -> None:
    slow, quick = Journal(desk.folder, "team:acme"), Journal(desk.folder, "team:acme")
    await desk.ingest("one")
    older, newer = (mark("two"), desk.version("two")), (mark("three"), desk.version("three"))

    # The file was "two" when one of them read it, and is "three" since.
    slow.begin([older])
    quick.begin([newer])
    await desk.store("three")
    quick.accept([newer])
    await desk.store("two")
    slow.accept([older])
    for journal in (slow, quick):
        await desk.looker(journal).run()
    between = await desk.texts()
    desk.crash()
    assert desk.journal.accepted_as(mark("three")) is None  # so the next run sends it
    await desk.ingest("three")
    await desk.replacing.run()

    assert between == ["two"]
    assert await desk.texts() == ["three"]
    assert desk.journal.accepted_as(mark("three")) == newer[1]
    assert desk.replacing.left == []


@pytest.mark.parametrize(
    ("first", "meanwhile"), [("two", ["two"]), ("three", ["one", "three"])], ids=["older", "newer"]
)
async def test_whichever_of_two_is_stored_first_the_file_is_never_without_a_document(
    desk: Desk, first: str, meanwhile: list[str]
) -> None:
    slow, quick = Journal(desk.folder, "team:acme"), Journal(desk.folder, "team:acme")
    await desk.ingest("one")
    older, newer = (mark("two"), desk.version("two")), (mark("three"), desk.version("three"))
    last = "three" if first == "two" else "two"
    desk.states[desk.version(last).job] = JobState.RUNNING

    slow.begin([older])
    quick.begin([newer])
    quick.accept([newer])
    slow.accept([older])
    await desk.store(first)
    await desk.looker(quick).run()
    while_one_runs = await desk.texts()
    await desk.store(last)
    desk.states.clear()
    await desk.looker(slow).run()

    assert while_one_runs == meanwhile
    assert await desk.texts() == ["two"]


async def test_a_line_cut_short_counts_for_nothing_and_the_next_one_counts(desk: Desk) -> None:
    desk.accept("one")
    (file,) = (desk.folder / "ingest").glob("*.jsonl")
    whole = file.read_bytes().rstrip(b"\n")
    file.write_bytes(whole[:-5])

    desk.crash()
    assert not desk.journal.accepted_as(mark("one"))
    desk.accept("two")
    desk.crash()

    assert desk.journal.accepted_as(mark("two"))
    assert not desk.journal.accepted_as(mark("one"))


async def test_hundreds_of_changed_files_are_replaced_in_one_look(desk: Desk) -> None:
    paths = [f"/notes/{number}.md" for number in range(450)]
    for text in ("one", "two"):
        files = [(mark(text, path), desk.version(text, path)) for path in paths]
        desk.journal.begin(files)
        desk.journal.accept(files)
        await Brain(desk.engine, LAYOUT).ingest_many([document(text, path) for path in paths])

    await desk.replacing.run()

    page = await desk.engine.list(ListRequest(limit=1000))
    assert {hit.text for hit in page.items} == {"two"}
    assert len(page.items) == len(desk.replacing.replaced) == 450
    assert desk.asked == [2 * STEP] * (450 // STEP)


@pytest.mark.parametrize("wire", ["direct", "hosted"])
async def test_cortexdb_keeps_the_ids_that_a_replacement_goes_by(
    desk: Desk, wire: Literal["direct", "hosted"]
) -> None:
    async with cortex_server(wire) as server:

        def connected() -> CortexEngine:
            connect = {"direct": CortexEngine.direct, "hosted": CortexEngine.tinyhumans}[wire]
            return connect(server.url, "key")

        async with connected() as engine:
            found: list[list[str]] = []
            # Back to what was forgotten, too: it is no replay of its first time.
            for text in ("one", "two", "one"):
                desk.accept(text)
                await Brain(engine, LAYOUT).ingest(document(text, NOTE))
                await desk.looker(desk.journal, connected).run()
                page = await engine.list(ListRequest(limit=10))
                found.append([hit.text for hit in page.items])

    assert found == [["one"], ["two"], ["one"]]
