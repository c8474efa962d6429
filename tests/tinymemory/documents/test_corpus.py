import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tinymemory.brain import Brain
from tinymemory.documents import Converters, RawDocument, brain_document
from tinymemory.engines.sqlite import SqliteEngine
from tinymemory.layout import MemoryLayout
from tinymemory.meta import MemoryMeta
from tinymemory.namespace import Namespace

CORPUS = Path(__file__).parent / "corpus"
FACTS: dict[str, list[dict[str, str]]] = json.loads((CORPUS / "facts.json").read_text(encoding="utf-8"))
FORMATS = sorted({path.partition("/")[0] for path in FACTS})


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    async with SqliteEngine(tmp_path / "memory.db") as engine:
        yield engine


def test_there_are_at_least_forty_files_in_ten_formats() -> None:
    assert len(FACTS) >= 40
    assert len(FORMATS) >= 10


@pytest.mark.parametrize("format_", FORMATS)
async def test_every_fact_of_a_format_is_found_by_search(
    converters: Converters,
    engine: SqliteEngine,
    format_: str,
    record_property: Callable[[str, object], None],
) -> None:
    brain = Brain(engine, MemoryLayout(Namespace.parse("team:corpus")))
    files = [path for path in FACTS if path.startswith(f"{format_}/")]
    for path in files:
        raw = RawDocument((CORPUS / path).read_bytes(), Path(path).name)
        await brain.ingest(await brain_document(converters, raw, meta=MemoryMeta(file_path=path)))

    found: Counter[bool] = Counter()
    missed: list[str] = []
    for path in files:
        for fact in FACTS[path]:
            hits = await brain.search(fact["ask"], limit=20)
            hit = any(
                fact["find"] in " ".join(hit.text.split()) for hit in hits if hit.meta.file_path == path
            )
            found[hit] += 1
            if not hit:
                missed.append(f"{path}: {fact['ask']}")

    record_property("found", f"{format_}: {found[True]}/{found.total()}")
    assert not missed


@pytest.mark.parametrize(
    ("path", "title", "language"),
    [
        ("markdown/bahnhof.md", "Fahrplan der Inselbahn", "de"),
        ("docx/receita.libreoffice.docx", "Caldeirada de peixe", "pt"),
        ("html/receita.html", "receita", "pt"),
        ("epub/observatory.epub", "observatory", "en"),
        ("eml/boiler.eml", "Caldeira avariada \N{EN DASH} turno da manhã", "pt"),
        ("text/fahrplan-latin1.txt", "fahrplan-latin1.txt", "de"),
    ],
)
async def test_title_and_language_are_found(
    converters: Converters, path: str, title: str, language: str
) -> None:
    document = await brain_document(converters, RawDocument((CORPUS / path).read_bytes(), Path(path).name))

    assert (document.title, document.meta.language) == (title, language)


async def test_tables_and_headings_become_markdown(converters: Converters) -> None:
    raw = RawDocument((CORPUS / "docx/kitchen-equipment.libreoffice.docx").read_bytes(), "kitchen.docx")
    text = (await brain_document(converters, raw)).text

    assert "# Kitchen equipment" in text
    assert "| blast chiller 2 | hall B | every 3 months | none in stock |" in text


@pytest.mark.parametrize("path", ["pptx/observatory.pptx", "epub/observatory.epub"])
async def test_pages_are_kept_as_form_feeds(converters: Converters, path: str) -> None:
    document = await brain_document(converters, RawDocument((CORPUS / path).read_bytes(), Path(path).name))

    assert document.text.count("\f") >= 1
