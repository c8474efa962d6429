"""Background jobs are values with a frozen JSON, and the runner does what they say."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import (
    BackgroundJob,
    BackgroundRunner,
    BrainDocument,
    BuildBeliefs,
    ConsolidateReceipt,
    ConsolidateRequest,
    ConsolidateStatus,
    EngineError,
    IngestBrain,
    InvalidRequestError,
    ItemKind,
    JobOutcome,
    JobReport,
    MemoryLayout,
    MemoryMeta,
    Namespace,
    OutcomeKind,
    Reach,
    ReferenceEngine,
    SourceKind,
    SourceRef,
    UnsupportedError,
    parse_job,
)
from tinymemory.testing.watched import WatchedEngine
from tinymemory.text import is_blank

LAYOUT = MemoryLayout(Namespace.parse("team:acme"))
BUILD_JSON = (
    '{"job":"build_beliefs","request":{"reach":{"at":"team:acme/agent:support-01","inherit":false,'
    '"descendants":false},"kinds":["conversation"]}}'
)
INGEST_JSON = (
    '{"job":"ingest_brain","documents":[{"source":"pdf","title":"Refund policy","text":"Five days.",'
    '"mime":"application/pdf","meta":{"file_path":"/policies/refunds.pdf","source":{"kind":"file"}}}]}'
)
BUILD = BuildBeliefs(
    ConsolidateRequest(reach=Reach.exact("team:acme/agent:support-01"), kinds=(ItemKind.CONVERSATION,))
)
INGEST = IngestBrain(
    [
        BrainDocument(
            "pdf",
            "Five days.",
            title="Refund policy",
            mime="application/pdf",
            meta=MemoryMeta(file_path="/policies/refunds.pdf"),
        )
    ]
)


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine(ReferenceEngine())


@pytest.fixture
def runner(engine: WatchedEngine) -> BackgroundRunner:
    return BackgroundRunner(engine, LAYOUT)


@pytest.mark.parametrize(("job", "text"), [(BUILD, BUILD_JSON), (INGEST, INGEST_JSON)])
def test_a_job_is_written_and_read_as_the_frozen_json(job: BackgroundJob, text: str) -> None:
    assert job.model_dump_json() == text
    assert parse_job(text) == job
    assert parse_job(json.loads(text)) == job
    assert job.name == json.loads(text)["job"]


def test_unset_fields_and_empty_kinds_are_left_out_and_a_reach_is_whole() -> None:
    build = BuildBeliefs(ConsolidateRequest(reach=Reach.of("team:acme")))
    ingest = IngestBrain([BrainDocument("web", "text")])

    assert json.loads(build.model_dump_json()) == {
        "job": "build_beliefs",
        "request": {"reach": {"at": "team:acme", "inherit": True, "descendants": False}},
    }
    assert json.loads(ingest.model_dump_json()) == {
        "job": "ingest_brain",
        "documents": [{"source": "web", "text": "text", "meta": {"source": {"kind": "import"}}}],
    }


def test_a_reach_reads_what_it_misses_as_root_true_false() -> None:
    job = parse_job('{"job": "build_beliefs", "request": {"reach": {}}}')

    assert job == BuildBeliefs(ConsolidateRequest(reach=Reach()))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"job": "polish"}', "build_beliefs"),
        ('{"request": {}}', "job"),
        ('{"job": "build_beliefs"}', "request"),
        ('{"job": "build_beliefs", "request": {"reach": {}}, "soon": true}', "soon"),
        ('{"job": "build_beliefs", "request": {"reach": {}, "soon": true}}', "request.soon"),
        ('{"job": "build_beliefs", "request": {"reach": {"up": true}}}', "reach.up"),
        ('{"job": "build_beliefs", "request": {"reach": {"at": "planet:mars"}}}', "planet:mars"),
        ('{"job": "build_beliefs", "request": {"reach": {}, "kinds": ["memo"]}}', "kinds.0"),
        ('{"job": "ingest_brain"}', "documents"),
        ('{"job": "ingest_brain", "documents": [{"source": "pdf"}]}', "documents.0.text"),
        ('{"job": "ingest_brain", "documents": [{"text": "x"}]}', "documents.0.source"),
        ('{"job": "ingest_brain", "documents": [{"source": "", "text": "x"}]}', "source"),
        ('{"job": "ingest_brain", "documents": [{"source": "pdf", "text": "x", "body": 1}]}', "0.body"),
        ('{"job": "ingest_brain", "documents": [{"source": "pdf", "text": 7}]}', "documents.0.text"),
        ("[]", "background job"),
        ("not json", "invalid JSON"),
    ],
)
def test_what_is_no_job_is_refused_by_the_name_of_what_is_wrong(text: str, named: str) -> None:
    with pytest.raises(InvalidRequestError, match=named.replace(".", r"\.")):
        parse_job(text)


segments = st.builds(
    "{}:{}".format,
    st.sampled_from(["team", "agent", "user", "ws", "project", "source"]),
    st.from_regex(r"\A[A-Za-z0-9_-]{1,12}\Z"),
)
namespaces = st.lists(segments, max_size=8).map(lambda path: Namespace.parse("/".join(path)))
reaches = st.builds(Reach, namespaces, st.booleans(), st.booleans())
kinds = st.lists(st.sampled_from(ItemKind), unique=True).map(tuple)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
some_text = st.none() | texts
metas = st.builds(
    MemoryMeta,
    namespace=namespaces,
    file_path=some_text,
    tags=st.lists(texts, max_size=3).map(tuple),
    source=st.builds(SourceRef, kind=st.sampled_from(SourceKind), id=some_text),
    observed_at=st.none() | st.datetimes(timezones=st.timezones()).filter(lambda at: 2 < at.year < 9998),
    derive=st.none() | st.booleans(),
)
documents = st.builds(
    BrainDocument,
    source=texts.filter(lambda text: not is_blank(text)),
    text=texts,
    title=some_text,
    mime=some_text,
    meta=metas,
)
jobs: st.SearchStrategy[BackgroundJob] = st.builds(
    BuildBeliefs, request=st.builds(ConsolidateRequest, reach=reaches, kinds=kinds)
) | st.builds(IngestBrain, documents=st.lists(documents, max_size=3))


@given(jobs)
def test_every_job_comes_back_from_its_json_the_same_value_with_the_same_hash(job: BackgroundJob) -> None:
    text = job.model_dump_json()

    read = parse_job(text)

    assert read == job
    assert hash(read) == hash(job)
    assert read.model_dump_json() == text


def test_jobs_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        BUILD.request = ConsolidateRequest(reach=Reach())  # pyright: ignore[reportAttributeAccessIssue]  # the point
    assert len({BUILD, parse_job(BUILD_JSON), INGEST}) == 2


def test_a_job_is_valid_when_its_request_and_all_its_documents_are() -> None:
    twice = ConsolidateRequest(reach=Reach(), kinds=(ItemKind.LEARNING, ItemKind.LEARNING))

    BUILD.ensure_valid()
    INGEST.ensure_valid()
    with pytest.raises(InvalidRequestError, match="kinds"):
        BuildBeliefs(twice).ensure_valid()
    with pytest.raises(InvalidRequestError, match="source `web` has no text"):
        IngestBrain([*INGEST.documents, BrainDocument("web", " ")]).ensure_valid()
    with pytest.raises(InvalidRequestError, match="surrogate"):
        IngestBrain([BrainDocument("web", "half a pair: \ud800")]).ensure_valid()


@pytest.mark.parametrize(
    ("reach", "is_within"),
    [
        (Reach.exact("team:acme"), True),
        (Reach.subtree("team:acme"), True),
        (Reach.exact("team:acme/agent:a"), True),
        (Reach.of("team:acme/agent:a"), False),
        (Reach.subtree("root"), False),
        (Reach.exact("team:acme-2"), False),
    ],
)
def test_a_build_is_within_a_root_when_all_it_reads_is(reach: Reach, is_within: bool) -> None:
    job = BuildBeliefs(ConsolidateRequest(reach=reach))

    if is_within:
        job.ensure_within(LAYOUT.root)
    else:
        with pytest.raises(InvalidRequestError, match="outside its root team:acme"):
            job.ensure_within(LAYOUT.root)


@pytest.mark.parametrize(
    ("named", "is_within"),
    [("root", True), ("team:acme/source:pdf", True), ("team:other", False), ("team:other/agent:a", False)],
)
def test_an_ingest_is_within_a_root_unless_a_document_names_another(named: str, is_within: bool) -> None:
    meta = MemoryMeta(namespace=Namespace.parse(named))
    job = IngestBrain([BrainDocument("pdf", "fine"), BrainDocument("pdf", "text", meta=meta)])

    if is_within:
        job.ensure_within(LAYOUT.root)
    else:
        with pytest.raises(InvalidRequestError, match="outside its root team:acme"):
            job.ensure_within(LAYOUT.root)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (ConsolidateStatus.COMPLETED, "done"),
        (ConsolidateStatus.STARTED, "started"),
        (ConsolidateStatus.SCHEDULED, "scheduled"),
    ],
)
async def test_a_build_reports_how_the_engine_answered(
    engine: WatchedEngine, runner: BackgroundRunner, status: ConsolidateStatus, outcome: str
) -> None:
    receipt = ConsolidateReceipt(status=status, jobs=["j1"], scopes=2)
    engine.watch.answers["consolidate"] = lambda _: receipt

    report = await runner.run(BUILD)

    assert report == JobReport(
        job="build_beliefs",
        outcome=JobOutcome(outcome=OutcomeKind(outcome)),
        consolidation=receipt,
    )
    assert json.loads(report.model_dump_json())["outcome"] == {"outcome": outcome}
    assert engine.watch.requests("consolidate") == [BUILD.request]


async def test_a_build_on_an_engine_that_builds_nothing_is_skipped(
    engine: WatchedEngine, runner: BackgroundRunner
) -> None:
    engine.watch.failures["consolidate"] = UnsupportedError("no beliefs here")

    report = await runner.run(BUILD)

    assert json.loads(report.model_dump_json())["outcome"] == {
        "outcome": "skipped",
        "reason": "unsupported: no beliefs here",
    }
    assert report.consolidation is None


@pytest.mark.parametrize("error", [EngineError("broken"), InvalidRequestError("no"), RuntimeError("bug")])
async def test_every_other_error_of_a_build_is_raised(
    engine: WatchedEngine, runner: BackgroundRunner, error: Exception
) -> None:
    engine.watch.failures["consolidate"] = error

    with pytest.raises(type(error)):
        await runner.run(BUILD)


async def test_a_malformed_build_never_reaches_the_engine(
    engine: WatchedEngine, runner: BackgroundRunner
) -> None:
    twice = ConsolidateRequest(reach=Reach(), kinds=(ItemKind.LEARNING, ItemKind.LEARNING))

    with pytest.raises(InvalidRequestError, match="kinds"):
        await runner.run(BuildBeliefs(twice))

    assert engine.watch.calls == []


async def test_an_ingest_reports_what_it_stored_and_the_builds_that_follow(runner: BackgroundRunner) -> None:
    job = IngestBrain(
        [BrainDocument("web", "one"), BrainDocument("pdf", "two"), BrainDocument("web", "three")]
    )
    seen: list[tuple[int, int]] = []

    report = await runner.run(job, progress=lambda done, total: seen.append((done, total)))
    again = await runner.run(job)

    assert report.job == "ingest_brain"
    assert report.outcome == JobOutcome.done()
    assert [receipt.id for receipt in report.stored] == [
        document.item(LAYOUT).fingerprint() for document in job.documents
    ]
    assert [str(build.request.reach.at) for build in report.follow_ups] == [
        "team:acme/source:pdf",
        "team:acme/source:web",
    ]
    assert seen == [(3, 3)]
    assert [receipt.replayed for receipt in again.stored] == [True, True, True]


async def test_an_unsupported_ingest_is_an_error_and_not_skipped(
    engine: WatchedEngine, runner: BackgroundRunner
) -> None:
    engine.watch.failures["store_many"] = UnsupportedError("read only")

    with pytest.raises(UnsupportedError):
        await runner.run(INGEST)


async def test_r64_an_ingest_of_a_document_without_text_stores_nothing(
    engine: WatchedEngine, runner: BackgroundRunner
) -> None:
    with pytest.raises(InvalidRequestError, match="source `pdf` has no text"):
        await runner.run(IngestBrain([BrainDocument("web", "fine"), BrainDocument("pdf", "\n")]))

    assert engine.watch.calls == []


async def test_r55_a_build_hands_back_no_job(runner: BackgroundRunner) -> None:
    await runner.run(INGEST)

    report = await runner.run(BuildBeliefs(ConsolidateRequest(reach=Reach.subtree("team:acme"))))

    assert report.consolidation is not None
    assert report.consolidation.built == 1
    assert report.follow_ups == []


@pytest.mark.parametrize("kind", [OutcomeKind.DONE, OutcomeKind.STARTED, OutcomeKind.SCHEDULED])
def test_an_outcome_is_told_by_its_name(kind: OutcomeKind) -> None:
    outcome = getattr(JobOutcome, kind.value)()

    assert outcome.model_dump(mode="json") == {"outcome": kind.value}
