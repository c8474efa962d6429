"""§9 items 58 to 60, 62 and 103: what leaves the machine, and filters by what did not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import FetchRequest, GetRequest, Learning, ListRequest, MemoryMeta, MetaFilter
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.envelope import Envelope
from tinymemory.engines.cortex.layout import lay_out
from tinymemory.engines.cortex.selection import Selection
from tinymemory.engines.cortex.stored import RawEvent
from tinymemory.redaction import redacted
from tinymemory.testing import CortexServer

CHANNEL = "channel:whatsapp_+15550142377_+15550142377"
LOCAL = {
    "workspace": "/home/ann/trips",
    "folder": "/home/ann/trips/docs",
    "file_path": "/home/ann/trips/docs/plan.md",
}


def learning(**meta: Any) -> Learning:
    return Learning(text="the night train", meta=MemoryMeta.model_validate(meta))


def envelope_of(**meta: Any) -> Envelope:
    [event] = lay_out(learning(**meta)).events
    found = RawEvent("evt", event.text, event.labels).envelope
    assert found is not None
    return found


def everything_sent(server: CortexServer) -> str:
    seen = server.seen
    return json.dumps([seen.requests, seen.headers, seen.writes, seen.recalls, seen.answers, seen.forgets])


@pytest.mark.parametrize(
    "workspace", ["/home/ann/trips", "~/trips", "C:\\Users\\ann", "c:trips", "\\\\nas\\ann"]
)
async def test_no_folder_absolute_path_or_home_directory_is_in_anything_sent(
    engine: CortexEngine, server: CortexServer, workspace: str
) -> None:
    # §9 item 58
    meta: dict[str, Any] = (
        LOCAL | {"workspace": workspace} | {"observed_actor": {"id": "a", "name": "Ann Lee"}}
    )
    await engine.store(learning(**meta))
    selected = MetaFilter.model_validate(LOCAL | {"workspace": workspace})
    assert len((await engine.list(ListRequest(filter=selected))).items) == 1
    assert len((await engine.fetch(FetchRequest(query="night train", filter=selected))).hits) == 1

    sent = everything_sent(server)
    assert "plan.md" in sent
    for secret in ("/home", "~/trips", "Users", "trips", "nas", "docs", "Ann Lee"):
        assert secret not in sent


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(lambda name: f"/secret-place/{name}")
)
def test_no_part_of_a_local_path_but_its_last_is_in_an_event(path: str) -> None:
    # §9 item 58
    [event] = lay_out(learning(workspace=path, folder=path, file_path=path)).events

    assert b"secret-place" not in event.body


def test_a_logical_workspace_is_kept() -> None:
    # §9 item 58
    for workspace in ("acme", "acme/docs", "w:1", "7:x"):
        found = envelope_of(workspace=workspace)
        is_kept = not workspace.startswith("w:")
        assert (found.meta.workspace, found.ws is None) == (workspace if is_kept else None, is_kept)


@pytest.mark.parametrize(
    ("wanted", "is_match"),
    [
        ({"file_path": "/home/ann/trips/docs/plan.md"}, True),
        ({"file_path": "/home/ann/trips/docs"}, True),
        ({"file_path": "/home/ann/trips/docs/"}, True),
        ({"file_path": "/home/ann"}, True),
        ({"file_path": "plan.md"}, True),
        ({"file_path": "/home/an"}, False),
        ({"file_path": "/home/ann/trips/docs/plan.mdx"}, False),
        ({"folder": "/home/ann/trips/docs"}, True),
        ({"folder": "/home/ann/trips/docs/"}, True),
        ({"folder": "/home/ann/trips"}, True),
        ({"folder": "/home/ann/trips/doc"}, False),
        ({"workspace": "/home/ann/trips"}, True),
        ({"workspace": "/home/ann"}, False),
        ({"workspace": "/home/ann/trips/"}, False),
        (LOCAL, True),
    ],
)
async def test_filters_by_full_path_by_folder_and_by_workspace_still_match(
    engine: CortexEngine, wanted: dict[str, str], is_match: bool
) -> None:
    # §9 item 59
    await engine.store(learning(**LOCAL))

    found = (await engine.list(ListRequest(filter=MetaFilter.model_validate(wanted)))).items

    assert bool(found) == is_match


def test_a_windows_path_still_matches() -> None:
    # §9 item 59
    path = "C:\\Users\\ann\\plan.md"
    found = envelope_of(file_path=path, folder="C:\\Users\\ann", workspace="C:\\Users")

    assert found.meta.file_path == "plan.md"
    for wanted in (
        {"file_path": path},
        {"file_path": "plan.md"},
        {"folder": "C:\\Users\\ann"},
        {"workspace": "C:\\Users"},
    ):
        assert Selection(MetaFilter.model_validate(wanted)).admits(found)
    assert not Selection(MetaFilter(file_path="C:\\Users")).admits(found)


async def test_an_id_with_a_phone_number_is_never_sent(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 60
    source = {"kind": "conversation", "id": CHANNEL}
    receipt = await engine.store(learning(thread_id=CHANNEL, agent_id="+1 555 014 2377", source=source))
    for wanted in (
        MetaFilter(thread_id=CHANNEL),
        MetaFilter(agent_id="+1 555 014 2377"),
        MetaFilter(source_id=CHANNEL),
        MetaFilter(thread_id=redacted(CHANNEL)),
    ):
        assert [hit.id for hit in (await engine.list(ListRequest(filter=wanted))).items] == [receipt.id]

    assert "5550142377" not in everything_sent(server)
    assert "555 014 2377" not in everything_sent(server)
    [hit] = await engine.get(GetRequest(ids=(receipt.id,)))
    assert hit.meta.thread_id == redacted(CHANNEL)


async def test_a_filter_by_such_an_id_finds_what_another_library_stored_unredacted(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 60
    meta = MemoryMeta(thread_id=CHANNEL)
    envelope = Envelope(id="a" * 40, kind=learning().kind, text="said elsewhere", meta=meta)
    server.log.append(
        {
            "scope": "app:tinymemory/app:learnings",
            "modality": "observation",
            "content": {"kind": "message", "role": "user", "text": envelope.json_v2()},
            "context": {"labels": ["tm:i:0000000000000000", "tm:t:3865328fbc60e581"]},
        }
    )

    [hit] = (await engine.list(ListRequest(filter=MetaFilter(thread_id=CHANNEL)))).items

    assert (hit.id, hit.text) == ("a" * 40, "said elsewhere")
    wanted = MetaFilter(thread_id=CHANNEL)
    assert [hit.id for hit in (await engine.fetch(FetchRequest(query="said", filter=wanted))).hits] == [
        "a" * 40
    ]
    both = ["tm:t:3865328fbc60e581", "tm:t:7d95d228614f638d"]
    assert all(body["filters"] == {"metadata": {"labels": both}} for body in server.seen.recalls)


async def test_an_item_reads_back_with_the_files_name_and_no_folder(engine: CortexEngine) -> None:
    # §9 item 62
    receipt = await engine.store(learning(**LOCAL))

    [hit] = await engine.get(GetRequest(ids=(receipt.id,)))

    assert (hit.meta.file_path, hit.meta.folder, hit.meta.workspace) == ("plan.md", None, None)
