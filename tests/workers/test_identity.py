"""Which jobs are the same, and how large ingests fall apart."""

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory.brain_input import BrainDocument
from tinymemory.errors import InvalidRequestError
from tinymemory.jobs import BuildBeliefs, IngestBrain, parse_job
from tinymemory.layout import MemoryLayout
from tinymemory.meta import ItemKind
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ConsolidateRequest
from workers.identity import MAX_PART_BYTES, WeighedDocument, batch_id, job_key, parts_of, scope_of, weigh

ACME = Namespace.parse("team:acme")
PAGE = {"source": "pdf", "text": "a"}
AGENT = Namespace.parse("team:acme/agent:support-01")


def build(reach: Reach | None = None, *kinds: ItemKind) -> BuildBeliefs:
    return BuildBeliefs(request=ConsolidateRequest(reach=reach or Reach.exact(AGENT), kinds=kinds))


def ingest(*documents: dict[str, Any]) -> IngestBrain:
    return IngestBrain(documents=tuple(BrainDocument.model_validate(one) for one in documents))


def weighed(*texts: str) -> list[WeighedDocument]:
    return weigh(ingest(*({"source": "pdf", "text": text} for text in texts)).documents, MemoryLayout(ACME))


def test_a_key_names_what_it_is_and_whose() -> None:
    assert re.fullmatch(r"build:team:acme:[0-9a-f]{20}", job_key(ACME, "default", build()))
    assert re.fullmatch(
        r"ingest:root:[0-9a-f]{20}", job_key("", "default", ingest({"source": "pdf", "text": "a"}))
    )


def test_keys_are_the_same_in_every_release() -> None:
    document = {"source": "pdf", "title": "Refunds", "text": "30 days", "mime": "application/pdf"}

    built = job_key(ACME, "default", build(None, ItemKind.CONVERSATION))
    ingested = job_key(ACME, "default", ingest(document))

    assert built == "build:team:acme:3bf5889f709d804d7fb7"
    assert ingested == "ingest:team:acme:577feb411289f996a1fb"


def test_the_root_and_the_profile_and_the_reach_are_part_of_a_key() -> None:
    keys = {
        job_key(ACME, "default", build()),
        job_key("", "default", build()),
        job_key(ACME, "cortexdb", build()),
        job_key(ACME, "default", build(Reach.subtree(AGENT))),
        job_key(ACME, "default", build(Reach.of(AGENT))),
        job_key(ACME, "default", build(None, ItemKind.CONVERSATION)),
    }

    assert len(keys) == 6


@given(st.permutations(list(ItemKind)))
def test_the_order_of_kinds_does_not_matter_and_all_three_are_none(kinds: list[ItemKind]) -> None:
    assert job_key(ACME, "default", build(None, *kinds)) == job_key(ACME, "default", build())
    assert job_key(ACME, "default", build(None, *kinds[:2])) == job_key(
        ACME, "default", build(None, *reversed(kinds[:2]))
    )


def test_the_order_of_keys_does_not_matter() -> None:
    text = '{"job":"ingest_brain","documents":[{"source":"pdf","text":"a","meta":{"tags":["x"],"repo":"r"}}]}'
    turned = (
        '{"documents":[{"meta":{"repo":"r","tags":["x"]},"text":"a","source":"pdf"}],"job":"ingest_brain"}'
    )

    assert job_key(ACME, "default", parse_job(text)) == job_key(ACME, "default", parse_job(turned))


def test_a_new_time_of_observation_is_the_same_job() -> None:
    first = ingest({"source": "pdf", "text": "a", "meta": {"observed_at": "2026-01-01T00:00:00Z"}})
    again = ingest({"source": "pdf", "text": "a", "meta": {"observed_at": "2026-02-01T00:00:00Z"}})
    undated = ingest({"source": "pdf", "text": "a"})

    assert job_key(ACME, "default", first) == job_key(ACME, "default", again)
    assert job_key(ACME, "default", first) == job_key(ACME, "default", undated)


def test_what_the_brain_overwrites_does_not_matter() -> None:
    plain = ingest({"source": "markdown", "text": "a"})
    placed = ingest(
        {"source": "MD", "text": "a", "meta": {"namespace": "team:acme/agent:x", "agent_id": "support-01"}}
    )

    assert job_key(ACME, "default", plain) == job_key(ACME, "default", placed)


def test_the_order_of_documents_and_each_word_of_them_do_matter() -> None:
    a, b = {"source": "pdf", "text": "a"}, {"source": "pdf", "text": "b"}
    jobs = [ingest(a, b), ingest(b, a), ingest(a), ingest(a | {"title": "t"}), ingest(a | {"source": "web"})]

    assert len({job_key(ACME, "default", job) for job in jobs}) == 5


@pytest.mark.parametrize("field", ["source", "title", "text"])
def test_r35_two_unicode_forms_of_one_text_are_one_job(field: str) -> None:
    composed = {"source": "notes", "title": "t", "text": "x", field: unicodedata.normalize("NFC", "café-42")}
    decomposed = composed | {field: unicodedata.normalize("NFD", "café-42")}

    assert composed[field] != decomposed[field]
    assert job_key(ACME, "default", ingest(composed)) == job_key(ACME, "default", ingest(decomposed))


def test_r35_two_unicode_forms_of_an_agents_id_are_one_scope_and_case_keeps_scopes_apart() -> None:
    layout = MemoryLayout(ACME)
    nodes = {
        spelling: layout.conversations(spelling)
        for spelling in (
            unicodedata.normalize("NFC", "café-42"),
            unicodedata.normalize("NFD", "café-42"),
            "Café-42",
            "café-42 ",
        )
    }
    keys = {job_key(ACME, "default", build(Reach.exact(node))) for node in nodes.values()}

    assert len(nodes) == 4
    assert len(keys) == 3


def test_a_document_that_cannot_be_stored_is_refused_by_its_position() -> None:
    job = ingest({"source": "pdf", "text": "a"}, {"source": "pdf", "text": " "})

    with pytest.raises(InvalidRequestError, match=r"`documents\[1\]`.*pdf.*no text"):
        job_key(ACME, "default", job)


def test_a_root_that_does_not_parse_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="`nonsense`"):
        job_key("nonsense", "default", build())


def test_a_builds_label_says_where_and_of_what() -> None:
    assert scope_of(build(None, ItemKind.CONVERSATION), ACME) == "team:acme/agent:support-01 [conversation]"
    assert scope_of(build(Reach.subtree(ACME)), ACME) == "team:acme/**"
    assert scope_of(build(Reach.of(AGENT), ItemKind.LEARNING, ItemKind.DOCUMENT), ACME) == (
        "team:acme/agent:support-01 and above [document, learning]"
    )


def test_an_ingests_label_lists_its_sources_and_no_content() -> None:
    job = ingest(
        {"source": "pdf", "text": "secret", "title": "secret"},
        {"source": "notion", "text": "secret"},
        {"source": "pdf", "text": "other"},
    )

    assert scope_of(job, ACME) == "team:acme [notion, pdf]"


def test_a_label_of_many_or_odd_sources_stays_short_and_on_one_line() -> None:
    job = ingest(*({"source": f"odd\n{number:02}", "text": "a"} for number in range(12)))

    label = scope_of(job, ACME)

    assert "\n" not in label
    assert label.endswith(", and 4 more]")


def test_a_large_ingest_falls_into_parts_of_a_hundred_documents() -> None:
    documents = weigh(
        ingest(*({"source": "pdf", "text": str(n)} for n in range(250))).documents, MemoryLayout(ACME)
    )

    parts = list(parts_of(documents))

    assert [len(part) for part in parts] == [100, 100, 50]
    assert [one.document for part in parts for one in part] == [one.document for one in documents]


def test_a_part_has_at_most_a_mebibyte_and_a_larger_document_is_one_by_itself() -> None:
    texts = ["a" * 400_000, "b" * 400_000, "c" * 400_000, "d" * 2_000_000, "e"]
    documents = weigh(
        ingest(*({"source": "pdf", "text": text} for text in texts)).documents, MemoryLayout(ACME)
    )

    parts = list(parts_of(documents))

    assert [[one.document.text[0] for one in part] for part in parts] == [["a", "b"], ["c"], ["d"], ["e"]]


@given(st.lists(st.integers(0, MAX_PART_BYTES // 2), min_size=1, max_size=250))
def test_parts_hold_every_document_once_in_order_within_the_limits(sizes: list[int]) -> None:
    [template] = weighed("a")
    documents = [WeighedDocument(template.document, "", size, str(n)) for n, size in enumerate(sizes)]

    parts = list(parts_of(documents))

    assert [one for part in parts for one in part] == documents
    assert all(0 < len(part) <= 100 for part in parts)
    assert all(sum(one.size for one in part) <= MAX_PART_BYTES for part in parts)


def test_the_same_ingest_again_is_the_same_batch() -> None:
    keys = [job_key(ACME, "default", ingest({"source": "pdf", "text": text})) for text in "ab"]

    assert batch_id(keys) == batch_id(keys)
    assert batch_id(keys) != batch_id(keys[::-1])


@given(
    st.dictionaries(st.sampled_from(["title", "mime"]), st.text(max_size=20)),
    st.text(min_size=1, max_size=50),
)
def test_a_job_keeps_its_key_through_json(fields: dict[str, str], text: str) -> None:
    job = ingest({"source": "pdf", "text": f"x{text}", **fields})
    try:
        key = job_key(ACME, "default", job)
    except InvalidRequestError:
        return

    assert job_key(ACME, "default", parse_job(json.dumps(json.loads(job.model_dump_json())))) == key
