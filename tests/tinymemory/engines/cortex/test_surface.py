"""§1: what each wire says of itself, and the numbers both go by."""

import pytest

from tinymemory.engines.cortex import (
    CortexEngine,
    Timing,
    body,
    chunks,
    labels,
    log,
    packs,
    ranking,
    sizes,
    together,
    transport,
    waiting,
    writer,
)
from tinymemory.engines.cortex.surface import DIRECT, HOSTED


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (
            CortexEngine.direct("https://h", "key"),
            ("cortexdb", "CortexDB", False, "https://api-v1.cortexdb.ai", "on_demand"),
        ),
        (
            CortexEngine.tinyhumans("https://h", "key"),
            ("tinyhumans", "TinyHumans", True, "https://api.tinyhumans.ai", "scheduled"),
        ),
    ],
)
def test_each_wire_describes_itself(engine: CortexEngine, told: tuple[object, ...]) -> None:
    found = engine.descriptor

    assert (found.id, found.label, found.hosted, found.default_endpoint, found.consolidation) == told
    assert (found.needs_endpoint, found.needs_key, [*found.fetch_modes]) == (False, True, ["hybrid"])


def test_the_defaults_are_those_the_page_names() -> None:
    timing = Timing()

    assert (timing.request_timeout, timing.connect_timeout) == (60.0, 10.0)
    assert (timing.backoff, timing.poll_gap, timing.poll_gap_cap) == (0.25, 0.25, 2.0)
    assert (timing.visibility_budget, timing.settle_budget, timing.pause_cap) == (30.0, 10.0, 10.0)
    assert (transport.READ_ATTEMPTS, transport.STATE_CHANGE_ATTEMPTS, writer.HOSTED_ATTEMPTS) == (3, 6, 3)
    assert (body.BODY_CAP, body.ERROR_BODY_CAP) == (64 * 1024 * 1024, 64 * 1024)
    assert (writer.BULK_EVENTS, writer.BULK_BYTES, waiting.SETTLE_QUERY) == (500, 16 * 1024 * 1024, 256)
    assert (log.PAGE_SIZE, log.MAX_PAGES, log.MAX_SCOPES, log.FORGET_BATCH) == (200, 500, 1000, 100)
    assert (DIRECT.labels_per_listing, HOSTED.labels_per_listing, together.AT_ONCE) == (100, 50, 4)
    assert (packs.EVENTS_PER_HIT, packs.MAX_PACK_EVENTS, packs.MAX_PACK_TOKENS) == (3, 1000, 8_388_608)
    assert (ranking.ANSWER_ROUNDS, sizes.EVENT_CAP, chunks.CHUNK_TARGET) == (3, 786_432, 262_144)
    assert (labels.SLICE_BYTES, labels.MAX_LABEL_BYTES, labels.MAX_LABELS) == (240, 256, 64)
