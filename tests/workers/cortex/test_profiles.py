"""One worker, two engines: each profile's jobs, and each profile's key, go to its own."""

import json
from collections.abc import Awaitable, Callable

import pytest

from tinymemory import BrainDocument, IngestBrain, Namespace
from tinymemory.testing import cortex_server
from workers import MemoryJobs
from workers.ledger import JobState

StartWorkers = Callable[..., Awaitable[MemoryJobs]]
ROOT = Namespace.parse("team:acme")
DOCUMENTS = f"app:tinymemory/{ROOT}/source:notion/app:documents"
PATIENCE = 60.0


def ingest(text: str) -> IngestBrain:
    return IngestBrain(documents=(BrainDocument(source="notion", text=text),))


async def test_each_profile_has_its_own_engine_and_key(
    start_workers: StartWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "sk-of-acme")
    async with cortex_server(wire="direct") as own, cortex_server(wire="hosted") as theirs:
        theirs.knobs.accept_token = "sk-of-acme"
        profile = {
            "engine": "tinyhumans",
            "endpoint": theirs.url,
            "key_env": "ACME_KEY",
            "headers": {"x-sdk-name": "acme-desk"},
        }
        jobs = await start_workers(own, PROFILES=json.dumps({"acme": profile}))

        here = await jobs.enqueue([ingest("Kept here.")], root=ROOT)
        there = await jobs.enqueue([ingest("Kept there.")], root=ROOT, profile="acme")
        ended = [await jobs.wait(job, timeout=PATIENCE) for job in (*here, *there)]

        assert [status.state for status in ended] == [JobState.DONE] * 2
        assert [event.text for event in own.log.events(DOCUMENTS)] == ["Kept here."]
        assert [event.text for event in theirs.log.events(DOCUMENTS)] == ["Kept there."]
        assert set(own.seen.auth) == {"Bearer sk-of-the-workers"}
        assert set(theirs.seen.auth) == {"Bearer sk-of-acme"}
        assert {headers.get("x-sdk-name") for headers in theirs.seen.headers} == {"acme-desk"}
