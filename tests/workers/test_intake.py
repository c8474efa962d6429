"""What is refused before the ledger sees it, and what it sees of the rest."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tinymemory.brain_input import BrainDocument
from tinymemory.errors import InvalidRequestError
from tinymemory.jobs import BuildBeliefs, IngestBrain
from tinymemory.namespace import Reach
from tinymemory.query import ConsolidateRequest
from workers import WorkerSettings, job_key
from workers.envelope import Envelope, open_envelope
from workers.identity import batch_id
from workers.intake import Intake
from workers.ledger import Coverage

AGENT = "team:acme/agent:support-01"


def build(reach: Reach | None = None, **request: Any) -> BuildBeliefs:
    return BuildBeliefs(request=ConsolidateRequest(reach=reach or Reach.exact(AGENT), **request))


def ingest(*texts: str, **fields: Any) -> IngestBrain:
    return IngestBrain(documents=tuple(BrainDocument(source="pdf", text=text, **fields) for text in texts))  # pyright: ignore[reportArgumentType]  # a source may be its id


@pytest.fixture
def intake() -> Intake:
    return Intake(WorkerSettings(build_delay=300, payload_limit=5000, profiles={"slow": {}}))


def test_a_build_arrives_with_all_the_ledger_needs(intake: Intake) -> None:
    job = build(kinds=("conversation",))

    [new] = intake.new_jobs(job, root="team:acme")

    assert new.key == job_key("team:acme", "default", job)
    assert (new.queue, new.profile, new.scope) == (
        "tinymemory.beliefs",
        "default",
        "team:acme/agent:support-01 [conversation]",
    )
    assert new.delay == 300
    assert new.coverage == Coverage(AGENT, inherit=False, descendants=False, kinds=("conversation",))
    opened = open_envelope(new.envelope)
    assert isinstance(opened, Envelope)
    assert (str(opened.root), opened.profile, opened.job) == ("team:acme", "default", job)


def test_an_ingest_arrives_due_at_once_and_covers_nothing(intake: Intake) -> None:
    job = ingest("30 days")

    [new] = intake.new_jobs(job, root="team:acme", profile="slow")

    assert new.key == job_key("team:acme", "slow", job)
    assert (new.queue, new.coverage, new.batch) == ("tinymemory.ingest.slow", None, "")
    opened = open_envelope(new.envelope)
    assert isinstance(opened, Envelope)
    assert opened.job == job


def test_a_job_may_be_given_as_its_json(intake: Intake) -> None:
    job = build()

    assert intake.new_jobs(json.loads(job.model_dump_json()), root="team:acme") == intake.new_jobs(
        job, root="team:acme"
    )


def test_a_delay_of_its_own_is_kept(intake: Intake) -> None:
    assert intake.new_jobs(build(), root="team:acme", delay=0.5)[0].delay == 0.5
    assert intake.new_jobs(build(), root="team:acme", delay=0)[0].delay == 0


@pytest.mark.parametrize(
    ("job", "options", "field"),
    [
        (build(), {"root": "nonsense"}, "`root`"),
        (build(), {"root": None}, "`root`"),
        (build(), {"root": "team:acme", "profile": "unknown"}, "`profile` 'unknown' is unknown: add it"),
        (build(), {"root": "team:acme", "profile": None}, "`profile`"),
        (build(), {"root": "team:acme", "delay": -1}, "`delay`"),
        (build(), {"root": "team:acme", "delay": float("nan")}, "`delay`"),
        (build(), {"root": "team:acme", "delay": float("inf")}, "`delay`"),
        (build(), {"root": "team:acme", "delay": "5"}, "`delay`"),
        (build(), {"root": "team:acme", "delay": True}, "`delay`"),
        (build(), {"root": "team:acme", "delay": timedelta(seconds=1)}, "`delay`"),
        (build(kinds=("document", "document")), {"root": "team:acme"}, "`kinds`"),
        ("build", {"root": "team:acme"}, "`job`"),
        (None, {"root": "team:acme"}, "`job`"),
        ({"job": "summarise"}, {"root": "team:acme"}, "summarise"),
        (IngestBrain(documents=()), {"root": "team:acme"}, "`documents`"),
        (ingest("a", " "), {"root": "team:acme"}, r"`documents\[1\]`"),
        (ingest("half \ud800 a pair"), {"root": "team:acme"}, r"`documents\[0\]`"),
    ],
)
def test_a_refusal_names_the_field(intake: Intake, job: Any, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequestError, match=field):
        intake.new_jobs(job, **options)


@pytest.mark.parametrize(
    "reach",
    [
        Reach.exact("team:other"),
        Reach.subtree("team:acme-2"),
        Reach.of(AGENT),
        Reach.exact("root"),
        Reach.subtree("root"),
    ],
)
def test_i7_a_build_that_reaches_outside_its_root_is_refused(intake: Intake, reach: Reach) -> None:
    with pytest.raises(InvalidRequestError, match="outside its root team:acme"):
        intake.new_jobs(build(reach), root="team:acme")


@pytest.mark.parametrize("namespace", ["team:other", "team:acme-2/agent:x", "user:acme"])
def test_i7_a_document_that_names_a_namespace_outside_its_root_is_refused(
    intake: Intake, namespace: str
) -> None:
    with pytest.raises(InvalidRequestError, match="outside its root team:acme"):
        intake.new_jobs(ingest("a", meta={"namespace": namespace}), root="team:acme")


def test_i7_a_document_that_names_a_namespace_within_its_root_is_accepted(intake: Intake) -> None:
    assert intake.new_jobs(ingest("a", meta={"namespace": AGENT}), root="team:acme")


def test_a_document_above_the_limit_is_refused_with_its_title_and_size(intake: Intake) -> None:
    with pytest.raises(InvalidRequestError, match=r"`The long one` has 60\d\d bytes.*`payload_limit` 5000"):
        intake.new_jobs(ingest("a" * 6000, title="The long one"), root="team:acme")


def test_a_large_ingest_is_split_into_jobs_of_one_batch(intake: Intake) -> None:
    job = ingest(*(f"text {number}" for number in range(250)))

    parts = intake.new_jobs(job, root="team:acme")
    again = intake.new_jobs(job, root="team:acme")

    assert len(parts) == 3
    assert {part.batch for part in parts} == {batch_id([part.key for part in parts])}
    assert again == parts
    opened = [open_envelope(part.envelope) for part in parts]
    documents = [
        document
        for envelope in opened
        if isinstance(envelope, Envelope) and isinstance(envelope.job, IngestBrain)
        for document in envelope.job.documents
    ]
    assert tuple(documents) == job.documents


def test_with_an_engine_factory_any_well_formed_profile_is_known() -> None:
    intake = Intake(WorkerSettings(engine_factory="host:engine"))

    assert intake.new_jobs(build(), root="team:acme", profile="tenant-7")
    with pytest.raises(InvalidRequestError, match="`profile`"):
        intake.new_jobs(build(), root="team:acme", profile="a.b")
