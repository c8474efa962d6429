"""A large document is ranked by its pieces and read as a whole."""

from tinymemory import (
    Document,
    DocumentBody,
    FetchMode,
    FetchRequest,
    GetRequest,
    ListRequest,
    MemoryMeta,
    SqliteEngine,
)
from tinymemory.engines.sqlite.pieces import PIECE, WHOLE, pieces_of

_FILLER = "Nothing of importance is said in this sentence. "


def page(title: str, said: str) -> str:
    return f"# {title}\n\n{_FILLER * 20}\n\n{said}\n\n"


_MANUAL = (
    page("Setup", "Turn the red valve.")
    + "\f"
    + page("Care", "Wipe it with vinegar.")
    + "## Storage\n\nKeep dry."
)


async def test_a_hit_of_a_large_document_is_its_piece_with_page_and_section(engine: SqliteEngine) -> None:
    item = Document(title="Manual", body=DocumentBody(text=_MANUAL), meta=MemoryMeta(tags=("own",)))
    receipt = await engine.store(item)

    for mode in FetchMode:
        result = await engine.fetch(FetchRequest(query="vinegar wipe", mode=mode))
        (hit,) = result.hits
        assert hit.id == receipt.id
        assert "Wipe it with vinegar." in hit.text
        assert "red valve" not in hit.text
        assert hit.meta.tags == ("own", "page:2", "section:Care")


async def test_a_large_document_is_whole_to_its_reader(engine: SqliteEngine) -> None:
    item = Document(title="Manual", body=DocumentBody(text=_MANUAL))
    receipt = await engine.store(item)

    (got,) = await engine.get(GetRequest(ids=(receipt.id,)))
    (listed,) = (await engine.list(ListRequest())).items

    assert got.text == listed.text == item.render_text()
    assert got.meta.tags == ()


async def test_a_piece_is_found_by_the_title_of_its_document(engine: SqliteEngine) -> None:
    await engine.store(Document(title="Dishwasher", body=DocumentBody(text=_MANUAL)))

    result = await engine.fetch(FetchRequest(query="dishwasher storage", mode=FetchMode.KEYWORD))

    assert "section:Storage" in result.hits[0].meta.tags


def test_a_small_document_is_one_piece() -> None:
    (piece,) = pieces_of(Document(title="T", body=DocumentBody(text="# A\n\none\n\n# B\n\ntwo")))

    assert piece.text == "# T\n\n# A\n\none\n\n# B\n\ntwo"
    assert piece.whole
    assert piece.tags == ()


def test_no_piece_is_longer_than_asked_and_no_word_is_lost() -> None:
    body = "".join(f"word{n} " for n in range(5_000)) + "\n\n" + "x" * 3 * PIECE

    pieces = pieces_of(Document(body=DocumentBody(text=body)))

    assert len(body) > WHOLE
    assert max(len(piece.text) for piece in pieces) <= PIECE
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(body.split())


def test_a_heading_in_a_code_block_is_code() -> None:
    body = f"# Real\n\n{_FILLER * 50}\n\n```sh\n# comment\nls\n```\n\n{_FILLER}"

    assert {piece.section for piece in pieces_of(Document(body=DocumentBody(text=body)))} == {"Real"}


def test_a_bare_heading_goes_with_what_follows_it() -> None:
    body = f"# Top\n\n## Inner\n\n{_FILLER * 50}"

    first, *_ = pieces_of(Document(body=DocumentBody(text=body)))

    assert first.text.startswith("# Top\n\n## Inner")
    assert first.section == "Inner"
