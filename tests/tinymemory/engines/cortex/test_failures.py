"""§9 items 37 to 45: what each failure becomes, and what its message says."""

import json
from collections.abc import Callable

import pytest

from tinymemory import (
    ConflictError,
    EngineError,
    InsufficientCreditsError,
    InvalidRequestError,
    ItemKind,
    ListRequest,
    MetaFilter,
    NotFoundError,
    Reach,
    TinyMemoryError,
    UnauthorizedError,
    UnavailableError,
)
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.surface import Surface
from tinymemory.testing import CortexServer, RawAnswer, raw

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
hosted_only = pytest.mark.parametrize("wire", ["hosted"])
LIST = ListRequest(filter=MetaFilter(reach=Reach(), kinds=(ItemKind.LEARNING,)))


async def failure(
    engine: CortexEngine, server: CortexServer, surface: Surface, status: int, body: bytes
) -> TinyMemoryError:
    server.knobs.raw_answers = {f"GET /{surface.events}": [RawAnswer(status, {}, body)] * 6}
    with pytest.raises(TinyMemoryError) as caught:
        await engine.list(LIST)
    server.knobs.raw_answers = {}
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, UnauthorizedError),
        (403, UnauthorizedError),
        (404, NotFoundError),
        (408, UnavailableError),
        (409, ConflictError),
        (413, InvalidRequestError),
        (418, EngineError),
        (422, InvalidRequestError),
        (429, UnavailableError),
        (451, EngineError),
        (500, UnavailableError),
        (501, EngineError),
        (502, UnavailableError),
        (503, UnavailableError),
        (504, UnavailableError),
        (507, EngineError),
        (300, EngineError),
        (304, EngineError),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"error_code": 7, "errorCode": 7, "error": null}'])
async def test_every_status_maps_to_its_class(
    engine: CortexEngine, server: CortexServer, surface: Surface, status: int, kind: type, body: bytes
) -> None:
    # §9 item 37
    error = await failure(engine, server, surface, status, body)

    assert type(error) is kind
    assert str(status) in error.message
    assert surface.events in error.message
    assert "127.0.0.1" in error.message
    assert "scope=" not in error.message


@direct_only
async def test_a_direct_402_is_an_engine_error(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 38
    error = await failure(engine, server, surface, 402, b'{"error_code": "USER_INSUFFICIENT_CREDITS"}')

    assert type(error) is EngineError
    assert error.code is None


@hosted_only
@pytest.mark.parametrize("body", [b"", b'{"errorCode": "USER_INSUFFICIENT_CREDITS"}', b'{"errorCode": "!"}'])
async def test_a_hosted_402_is_insufficient_credits(
    engine: CortexEngine, server: CortexServer, surface: Surface, body: bytes
) -> None:
    # §9 item 38
    error = await failure(engine, server, surface, 402, body)

    assert type(error) is InsufficientCreditsError
    assert error.code == "USER_INSUFFICIENT_CREDITS"
    assert "out of credits" in error.message


@hosted_only
async def test_a_hosted_402_of_another_code_is_an_engine_error(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 38
    error = await failure(engine, server, surface, 402, b'{"errorCode": "PLAN_NEEDED"}')

    assert type(error) is EngineError
    assert error.code == "PLAN_NEEDED"


@hosted_only
async def test_a_hosted_400_named_conflict_is_a_conflict_and_another_is_an_invalid_request(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 39
    assert type(await failure(engine, server, surface, 400, b'{"errorCode": "CONFLICT"}')) is ConflictError
    assert type(await failure(engine, server, surface, 400, b'{"errorCode": "BAD"}')) is InvalidRequestError


@hosted_only
@pytest.mark.parametrize(
    ("status", "named", "code"),
    [
        (400, "bad-request!", "BADREQUEST"),
        (400, "straße_7", "STRAE_7"),
        (400, "x" * 80, "X" * 64),
        (401, None, "UNAUTHORIZED"),
        (403, "", "UNAUTHORIZED"),
        (429, "---", "RATE_LIMITED"),
        (418, 7, "HTTP_418"),
        (500, None, "HTTP_500"),
    ],
)
async def test_a_hosted_code_is_cleaned_cut_and_uppercased_and_a_missing_one_gets_its_default(
    engine: CortexEngine, server: CortexServer, surface: Surface, status: int, named: object, code: str
) -> None:
    # §9 item 40
    error = await failure(engine, server, surface, status, json.dumps({"errorCode": named}).encode())

    assert error.code == code
    assert error.message.startswith(f"[{code}] ")


@direct_only
@pytest.mark.parametrize(
    "body", [b"[FAKE_CODE] gotcha", b'{"error_code": "POLICY_DENIED", "message": "[X] y"}']
)
async def test_server_text_that_looks_like_a_code_does_not_become_the_code(
    engine: CortexEngine, server: CortexServer, surface: Surface, body: bytes
) -> None:
    # §9 item 41
    error = await failure(engine, server, surface, 400, body)

    assert error.code is None
    assert not error.message.startswith("[")


@hosted_only
async def test_hosted_text_that_looks_like_a_code_does_not_become_the_code(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 41
    error = await failure(
        engine, server, surface, 500, b'{"error": "[FAKE_CODE] gotcha", "errorCode": "] [OTHER"}'
    )

    assert error.code == "OTHER"
    assert error.message.endswith(" — [FAKE_CODE] gotcha")


@hosted_only
@pytest.mark.parametrize("kind", ["no_envelope", "no_data", "success_false", "not_json", "truncated_json"])
async def test_a_hosted_success_without_its_envelope_is_an_error_and_never_a_result(
    engine: CortexEngine, server: CortexServer, surface: Surface, kind: str
) -> None:
    # §9 item 42
    server.knobs.raw_answers = {f"GET /{surface.events}": [kind]}

    with pytest.raises(EngineError) as caught:
        await engine.list(LIST)

    assert caught.value.code == ("NOT_TODAY" if kind == "success_false" else None)


@hosted_only
@pytest.mark.parametrize("success", ["true", 1, None, [], {}])
async def test_a_hosted_success_that_is_no_boolean_is_an_error(
    engine: CortexEngine, server: CortexServer, surface: Surface, success: object
) -> None:
    # §9 item 42
    answer = raw.json_answer({"success": success, "data": {"items": []}})
    server.knobs.raw_answers = {f"GET /{surface.events}": [answer]}

    with pytest.raises(EngineError):
        await engine.list(LIST)


@hosted_only
async def test_a_hosted_success_whose_data_is_null_is_an_answer_with_nothing_in_it(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 42
    server.knobs.raw_answers = {f"GET /{surface.events}": [raw.json_answer({"success": True, "data": None})]}

    assert (await engine.list(LIST)).items == []


@direct_only
async def test_an_empty_direct_body_is_null(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    server.knobs.raw_answers = {f"GET /{surface.events}": [RawAnswer(200, {}, b"")]}

    assert (await engine.list(LIST)).items == []


@pytest.mark.parametrize(
    ("length", "shown"), [(300, "x" * 300), (301, "x" * 300 + "…"), (9999, "x" * 300 + "…")]
)
async def test_the_servers_text_is_trimmed_and_cut_to_300_characters_after_the_dash(
    engine: CortexEngine, server: CortexServer, surface: Surface, length: int, shown: str
) -> None:
    # §9 item 43
    text = " \n" + "x" * length + "\n "
    body = json.dumps({"error": text}).encode() if surface.is_hosted else text.encode()

    error = await failure(engine, server, surface, 400, body)

    assert error.message.partition(" — ")[2] == shown


@hosted_only
async def test_an_error_that_is_no_text_is_shown_as_json(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 43
    error = await failure(engine, server, surface, 429, b'{"error": {"message": "too many", "type": "x"}}')

    assert error.message.endswith(' — {"message": "too many", "type": "x"}')
    assert error.code == "RATE_LIMITED"


async def test_a_servers_text_stays_on_one_line(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 43
    text = "first\nERROR forged\r\x1b[31m\u2028line"
    body = json.dumps({"error": text}).encode() if surface.is_hosted else text.encode()

    error = await failure(engine, server, surface, 400, body)

    assert len(error.message.splitlines()) == 1


async def test_the_advice_fits_the_wire(engine: CortexEngine, server: CortexServer, surface: Surface) -> None:
    # §9 item 37
    error = await failure(engine, server, surface, 401, b"")

    assert "check the key" in error.message
    assert ("sign in again" in error.message) == surface.is_hosted


async def test_a_health_reason_withholds_the_servers_own_text(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 44
    for status in (403, 503):
        server.knobs.raw_answers = {
            f"GET /{surface.health}": [RawAnswer(status, {}, b"the key sk-1 is revoked")]
        }
        reason = (await engine.health()).reason
        assert reason is not None
        assert reason.endswith(" (detail withheld)")
        assert "sk-1" not in reason

    server.knobs.raw_answers = {f"GET /{surface.health}": [RawAnswer(403, {}, b"")]}
    reason = (await engine.health()).reason
    assert reason is not None
    assert "withheld" not in reason


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (RawAnswer(200, {}, b'{"success": true, "data": {}}'), "ok"),
        (RawAnswer(204, {}, b""), None),
        (RawAnswer(429, {}, b""), "degraded"),
        (RawAnswer(503, {}, b""), "degraded"),
        (RawAnswer(close="before"), "degraded"),
        (RawAnswer(401, {}, b""), "down"),
        (RawAnswer(404, {}, b""), "down"),
        (RawAnswer(200, {}, b"<html>"), "down"),
        (RawAnswer(301, {"Location": "https://elsewhere"}, b""), "down"),
    ],
)
async def test_an_unavailable_server_is_degraded_a_rejected_key_is_down_and_health_never_raises(
    engine: CortexEngine, server: CortexServer, surface: Surface, answer: RawAnswer, state: str | None
) -> None:
    # §9 item 45
    server.knobs.raw_answers = {f"GET /{surface.health}": [answer]}

    found = await engine.health()

    assert found.state == (state or ("down" if surface.is_hosted else "ok"))
    assert server.seen.count(f"GET /{surface.health}") == 1
    assert (found.reason is None) == (found.state == "ok")


async def test_an_unreachable_server_is_degraded(connect: Connect, unused_tcp_port: int) -> None:
    # §9 item 45
    async with connect(f"http://127.0.0.1:{unused_tcp_port}") as engine:
        assert (await engine.health()).state == "degraded"
