"""Where in its file a hit lies, on every engine that splits a document."""

import io
from collections.abc import AsyncIterator

import pytest
from pptx import Presentation
from pptx.util import Inches

from tinymemory.brain import Brain
from tinymemory.documents import Converters, RawDocument, brain_document
from tinymemory.engine import MemoryEngine
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.sqlite import SqliteEngine
from tinymemory.layout import MemoryLayout
from tinymemory.namespace import Namespace
from tinymemory.query import GetRequest
from tinymemory.testing import cortex_server

ROOMS = ("cellar", "kitchen", "library", "attic", "stable", "workshop")


@pytest.fixture(params=["sqlite", "cortexdb", "tinyhumans"])
async def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[MemoryEngine]:
    match request.param:
        case "sqlite":
            async with SqliteEngine(tmp_path_factory.mktemp("engine") / "memory.db") as engine:
                yield engine
        case "cortexdb":
            async with (
                cortex_server("direct") as server,
                CortexEngine.direct(server.url, "key", chunk_target=0) as engine,
            ):
                yield engine
        case _:
            async with (
                cortex_server("hosted") as server,
                CortexEngine.tinyhumans(server.url, "key", chunk_target=0) as engine,
            ):
                yield engine


def slides() -> bytes:
    """A deck of a slide a room, each with a heading and enough words to be worth splitting."""
    deck = Presentation()
    for room in ROOMS:
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        assert slide.shapes.title is not None
        slide.shapes.title.text = f"The {room}"
        box = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(8), Inches(4))
        box.text_frame.text = f"In the {room} hangs a lamp. " + "Nothing else is to be seen there. " * 20
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


async def test_a_hit_of_a_long_file_says_its_page_and_section_and_the_reader_gets_all_of_it(
    converters: Converters, engine: MemoryEngine
) -> None:
    brain = Brain(engine, MemoryLayout(Namespace.parse("team:acme")))
    document = await brain_document(converters, RawDocument(slides(), "house.pptx"))
    receipt = (await brain.ingest(document)).receipt

    hit = (await brain.search("lamp in the library"))[0]
    (whole,) = await engine.get(GetRequest(ids=(receipt.id,)))

    assert hit.id == receipt.id
    assert "In the library hangs a lamp." in hit.text
    assert {"page:3", "section:The library"} <= set(hit.meta.tags)
    assert all(f"The {room}" in whole.text for room in ROOMS)
    assert document.text.count("\f") == len(ROOMS) - 1
