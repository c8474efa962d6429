"""§9 items 63 to 71: long documents in pieces."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import (
    Document,
    ExploreRequest,
    Facet,
    FetchRequest,
    GetRequest,
    InvalidRequestError,
    ItemKind,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    RecallRequest,
)
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.chunks import Piece, overhead_of, pieces_of
from tinymemory.engines.cortex.envelope import ChunkPart, Envelope
from tinymemory.engines.cortex.layout import lay_out
from tinymemory.engines.cortex.sizes import EVENT_CAP, encoded_size
from tinymemory.engines.cortex.stored import RawEvent, whole_hit
from tinymemory.items import DocumentBody
from tinymemory.meta import SourceKind, SourceRef
from tinymemory.testing import CortexServer

Connect = Callable[..., CortexEngine]
GUIDE = (
    "# Intro\nalpha beta\n\n\f# Setup\nfirst step\n\n## Deep\nsecond step\n"
    "\fplain page with no heading\n\f\n  \n"
)


def document(title: str, body: str, file_path: str, source: str) -> Document:
    meta = MemoryMeta(file_path=file_path, source=SourceRef(kind=SourceKind.FILE, id=source))
    return Document(title=title, body=DocumentBody(text=body), meta=meta)


def guide(body: str = GUIDE) -> Document:
    return document("Guide", body, "guide.md", "guide.md")


def shapes(pieces: list[Piece]) -> list[tuple[int, tuple[int, int] | None, str | None]]:
    return [(encoded_size(piece.text), piece.pages, piece.section) for piece in pieces]


def test_example_f_gives_these_pieces() -> None:
    # §9 item 63
    laid_out = lay_out(guide(), 1114)

    assert laid_out.id == "3143b53c41ae575720f1c269b4c518b9306976c5"
    assert [event.key for event in laid_out.events] == [
        "tm3:11ac95fc1e0a8ba227998da291709c0fe66d8463a99b9083e84c4d1f",
        "tm3:49b42d2912fbad6bbac46b5941f00fcee4be70e7c67f2915af90bd26",
    ]
    first = laid_out.events[0].labels
    assert first[:7] == (
        "tm:i:594b4d3c9a8b5dc8",
        "tm:s:dc0dbe13416a77d1",
        "tm:k:3b9c358f36f0a31b",
        "kind:document",
        "file:guide.md",
        "page:1-2",
        "section:Intro",
    )
    assert [len(label.encode()) for label in first[7:]] == [248, 52]
    assert shapes(pieces_of(GUIDE, 1054, 1114)) == [(48, (1, 2), "Intro"), (60, (2, 3), "Deep")]


@pytest.mark.parametrize("target", [1094, 0])
def test_example_f_with_less_room_is_a_piece_a_unit(target: int) -> None:
    # §9 item 63
    assert shapes(pieces_of(GUIDE, 1054, target)) == [
        (23, (1, 1), "Intro"),
        (25, (2, 2), "Setup"),
        (22, (2, 2), "Deep"),
        (38, (3, 3), "Deep"),
    ]


def test_example_f_with_room_enough_stays_whole() -> None:
    # §9 item 63
    assert pieces_of(GUIDE, 1054, 1254) == [Piece(GUIDE, None, None)]
    assert [event.part for event in lay_out(guide()).events] == [None]


def test_example_g_a_ledger_of_twenty_thousand_lines() -> None:
    # §9 item 63
    body = "".join(f"row {number:06} of the ledger\n" for number in range(20_000))
    laid_out = lay_out(document("Ledger", body, "books/ledger.txt", "ledger.txt"))

    assert laid_out.id == "410a08e29feaa2f5315777c4c3f01c7e1a91212e"
    assert [len(event.text.encode()) for event in laid_out.events] == [251_025, 248_975]
    assert [event.key for event in laid_out.events] == [
        "tm3:7a1b2349be2f40663b2924609e2d6fe6baa7f704fb4f76f8f965f675",
        "tm3:c74008a36598323d137a1126c23f1004712e605be3cbffbc42b24f2e",
    ]
    assert not any(
        label.startswith(("page:", "section:")) for event in laid_out.events for label in event.labels
    )


bodies = st.text(
    st.sampled_from('ab é\u2003\n\n\n\f# \t\r\x01\x1f"\\😀'), min_size=1, max_size=400
) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@given(bodies, st.integers(6, 90))
def test_the_pieces_of_any_text_concatenate_to_it_and_each_fits(body: str, pack: int) -> None:
    # §9 item 64
    pieces = pieces_of(body, 1000, 1000 + pack)

    assert "".join(piece.text for piece in pieces) == body
    assert all(0 < encoded_size(piece.text) <= pack for piece in pieces)
    if len(pieces) > 1:
        pages = [page for piece in pieces for page in piece.pages or ()]
        assert pages == sorted(pages)
        assert bool(pages) == ("\f" in body)
        assert all(piece.section is None or 0 < len(piece.section) <= 120 for piece in pieces)


@given(bodies)
def test_at_a_target_of_nothing_the_pieces_are_the_units(body: str) -> None:
    # §9 item 64
    pieces = pieces_of(body, 1000, 0)

    assert "".join(piece.text for piece in pieces) == body
    if len(pieces) > 1:
        assert all(piece.text.strip("\t\n\v\f\r \x85\xa0\u2003") for piece in pieces)


@given(st.text(min_size=1, max_size=300))
def test_a_text_is_measured_as_json_spells_it(text: str) -> None:
    two = sum(character in '"\\\n\r\t\b\f' for character in text)
    six = sum(character < " " and character not in "\n\r\t\b\f" for character in text)

    assert encoded_size(text) == len(text.encode()) + two + 5 * six


@pytest.mark.parametrize(
    "line", ["# \f" * 20_000, "\f" * 50_000, "# a\n" * 20_000, "x" * 300_000, "\n" * 100_000]
)
def test_no_text_takes_long_to_split(line: str) -> None:
    # §9 item 64
    pieces = pieces_of(line, 1000, 21_000)

    assert "".join(piece.text for piece in pieces) == line


def test_a_document_just_under_the_target_is_one_event_and_just_over_it_is_more() -> None:
    # §9 item 65
    row = "row of the ledger\n"
    overhead = EVENT_CAP - encoded_room(guide(row))
    pack = 5000 - overhead
    fits = "x" * (pack - 2) + "\n"

    assert len(lay_out(guide(fits), 5000).events) == 1
    assert [event.part for event in lay_out(guide(fits + "y"), 5000).events] == [0, 1]


def encoded_room(item: Document) -> int:
    """The room for a piece's text beside this document's metadata."""
    from tinymemory.engines.cortex.chunks import overhead_of
    from tinymemory.engines.cortex.disclosure import disclosed
    from tinymemory.engines.cortex.envelope import Envelope

    sent = disclosed(item.meta)
    envelope = Envelope(
        id=item.fingerprint(),
        kind=item.kind,
        meta=sent.meta,
        fp=sent.file_path,
        fd=sent.folder,
        title=item.title,
    )
    return EVENT_CAP - overhead_of(envelope, item.body.text or "")


def test_a_trailing_blank_stretch_joins_the_last_unit_and_a_blank_page_the_next() -> None:
    # §9 item 66
    texts = [piece.text for piece in pieces_of("one\n\f \n\f\ttwo\n\f\n\f  ", 1000, 0)]

    assert texts == ["one\n", "\f \n\f\ttwo\n\f\n\f  "]
    assert [piece.pages for piece in pieces_of("one\n\f \n\f\ttwo\n\f\n\f  ", 1000, 0)] == [(1, 1), (3, 3)]


@pytest.mark.parametrize(
    ("body", "pack", "texts"),
    [
        ("aa\nbb\n\ncc\ndd\n\nee\n", 16, ["aa\nbb\n\n", "cc\ndd\n\nee\n"]),
        ("aaaaaa\n\n\nbbbbbb", 12, ["aaaaaa\n\n", "\nbbbbbb"]),
        ("aaaa\nbbbb\n\ncc", 8, ["aaaa\n", "bbbb\n\n", "cc"]),
        ("aaaa\n\nbb\ncc\n\n", 10, ["aaaa\n\n", "bb\ncc\n\n"]),
        ("abcdefghij", 6, ["abcdef", "ghij"]),
        ('ééé"""', 7, ["ééé", '"""']),
    ],
)
def test_a_unit_that_is_too_long_is_cut_at_blank_lines_then_at_lines_then_anywhere(
    body: str, pack: int, texts: list[str]
) -> None:
    # §9 item 63
    assert [piece.text for piece in pieces_of(body, 1000, 1000 + pack)] == texts


def test_a_piece_has_room_for_the_longest_escape_at_least() -> None:
    # §9 item 67
    body = "x" * 12

    assert [piece.text for piece in pieces_of(body, 1000, 1005)] == [body]
    assert [piece.text for piece in pieces_of(body, 1000, 1006)] == ["x" * 6] * 2
    assert [piece.text for piece in pieces_of(body, EVENT_CAP - 5)] == [body]
    assert [piece.text for piece in pieces_of(body, EVENT_CAP - 6)] == ["x" * 6] * 2


def test_an_all_blank_text_is_one_unit() -> None:
    # §9 item 66
    assert pieces_of("\f\n \f\u2003", 1000, 0) == [Piece("\f\n \f\u2003", (3, 3), None)]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# One", "One"),
        ("###### Six ##  ", "Six"),
        ("####### Seven", None),
        ("   # Indented", "Indented"),
        ("    # Code", None),
        ("#NoSpace", None),
        ("#\tTab", None),
        ("# ", None),
        ("# ##", None),
        ("#  Two  spaces #", "Two  spaces"),
        ("# C# ", "C"),
        ("# " + "t" * 200, "t" * 120),
        ("# A\r", "A"),
        ("# A\fB", "A\fB"),
        ("x # A", None),
    ],
)
def test_a_heading_is_a_line_of_this_shape(line: str, title: str | None) -> None:
    # §9 item 63
    [*_, last] = pieces_of(f"before\n{line}\nafter\n", 1000, 0)

    assert last.section == title


def test_metadata_that_leaves_no_room_writes_the_document_whole_or_refuses_it() -> None:
    # §9 item 67
    title = "t" * (EVENT_CAP - 1000)
    [event] = lay_out(guide("short body").model_copy(update={"title": title})).events
    assert event.part is None

    with pytest.raises(InvalidRequestError, match="document"):
        lay_out(guide("short body " * 99).model_copy(update={"title": title}))


async def test_a_chunked_document_reads_back_whole_by_get_and_list(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 68
    async with connect(server.url, chunk_target=0) as engine:
        receipt = await engine.store(guide())
        got = await engine.get(GetRequest(ids=(receipt.id,)))
        listed = await engine.list(ListRequest())

    assert [hit.text for hit in got] == [guide().render_text()]
    assert listed.items == got
    assert got[0].meta.tags == ()


async def test_one_missing_a_piece_is_left_out_but_counted_and_completed_by_the_next_store(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 69
    async with connect(server.url, chunk_target=0) as engine:
        receipt = await engine.store(guide())
        server.log.lose_last(server.log.scopes()[0])

        assert await engine.get(GetRequest(ids=(receipt.id,))) == []
        assert (await engine.list(ListRequest())).items == []
        assert (await engine.explore(ExploreRequest(facet=Facet.KIND))).total == 1

        writes = len(server.seen.idempotency)
        again = await engine.store(guide())
        assert not again.replayed
        assert len(server.seen.idempotency) == writes + 1
        assert [hit.text for hit in await engine.get(GetRequest(ids=(receipt.id,)))] == [
            guide().render_text()
        ]


@pytest.mark.parametrize(
    ("parts", "is_whole"),
    [
        ([(0, 2), (1, 2)], True),
        ([(1, 2), (0, 2), (1, 2)], True),
        ([(0, 2), (1, 3)], False),
        ([(0, 3), (1, 2)], False),
        ([(0, 2)], False),
        ([(0, 2), (2, 2)], False),
        ([(1, 1)], False),
        ([(0, 0)], False),
    ],
)
def test_a_document_is_whole_when_its_pieces_agree_and_are_all_there(
    parts: list[tuple[int, int]], is_whole: bool
) -> None:
    # §9 item 69
    envelopes = [
        Envelope(
            id="i",
            kind=ItemKind.DOCUMENT,
            meta=MemoryMeta(),
            text=f"<{index}>",
            chunk=ChunkPart(index=index, count=count),
        )
        for index, count in parts
    ]

    hit = whole_hit(envelopes)

    assert (None if hit is None else hit.text) == ("<0><1>" if is_whole else None)


async def test_a_fetch_hit_of_a_piece_carries_the_items_id_its_own_text_its_page_and_its_section(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 70
    async with connect(server.url, chunk_target=0) as engine:
        receipt = await engine.store(guide())
        [hit] = (await engine.fetch(FetchRequest(query="second step"))).hits[:1]
        [cited, *_] = (await engine.recall(RecallRequest(question="second step"))).citations

    assert hit.id == receipt.id
    assert hit.text == "## Deep\nsecond step\n"
    assert hit.meta.tags == ("page:2", "section:Deep")
    assert (cited.id, cited.snippet, cited.meta) == (hit.id, hit.text, hit.meta)
    assert hit.kind is ItemKind.DOCUMENT


async def test_a_whole_event_of_the_same_document_wins_over_pieces(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 71
    async with connect(server.url, chunk_target=0) as pieces, connect(server.url) as whole:
        receipt = await pieces.store(guide())
        server.log.lose_last(server.log.scopes()[0])
        await whole.store(guide())

        for engine in (pieces, whole):
            assert [hit.text for hit in await engine.get(GetRequest(ids=(receipt.id,)))] == [
                guide().render_text()
            ]
            assert (await engine.store(guide())).replayed
        assert len((await whole.list(ListRequest(filter=MetaFilter(source_id="guide.md")))).items) == 1


def test_the_overhead_of_the_examples_leaves_room_for_a_section() -> None:
    # §9 item 63
    ledger = document("Ledger", "x", "books/ledger.txt", "ledger.txt")
    for item, body, overhead in ((guide(), GUIDE, 1054), (ledger, "no form feed", 1070)):
        [event, *_] = lay_out(item, target=0).events
        envelope = RawEvent("evt", event.text, event.labels).envelope
        assert envelope is not None
        assert overhead_of(envelope, body) == overhead
