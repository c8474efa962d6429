"""An OpenAI-compatible service as embedder and distiller, over a real loopback server."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tinymemory import (
    BeliefsRequest,
    ChatDistiller,
    ConfigError,
    ConsolidateRequest,
    Conversation,
    Document,
    EngineError,
    FetchMode,
    FetchRequest,
    ForgetTarget,
    HolisticRecall,
    InsufficientCreditsError,
    InvalidRequestError,
    Learning,
    Namespace,
    NotFoundError,
    OpenAiEmbedder,
    Reach,
    ScopeSection,
    SqliteEngine,
    TinyMemoryError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    WaitFor,
    holistic_recall,
)

EVERYWHERE = Reach.subtree(Namespace.ROOT)
KEY = "sk-secret-key"
Answer = tuple[int, dict[str, str], Any]


@dataclass
class Service:
    """A stub of a service: `answer` says what a request gets; what came is in `calls`."""

    url: str = ""
    calls: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list[Any])
    answer: Callable[[str, dict[str, Any]], Answer] = lambda route, body: (500, {}, {})


@pytest.fixture
def service() -> Iterator[Service]:
    stub = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            stub.calls.append((self.path, self.headers["authorization"], body))
            status, headers, answer = stub.answer(self.path, body)
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its base names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield stub
    server.shutdown()
    thread.join()
    server.server_close()


def vectors(route: str, body: dict[str, Any]) -> Answer:
    """A model that knows but one thing: whether a text is about animals, plants or neither."""

    def vector(text: str) -> list[float]:
        animal = any(word in text.lower() for word in ("cat", "dog", "pet"))
        plant = any(word in text.lower() for word in ("rose", "oak", "flora"))
        return [float(animal), float(plant), 0.1, 0.0]

    rows = [{"index": place, "embedding": vector(text)} for place, text in enumerate(body["input"])]
    return 200, {}, {"data": rows[::-1]}


def says(*beliefs: dict[str, Any], drop: tuple[int, ...] = ()) -> Answer:
    content = "```json\n" + json.dumps({"beliefs": beliefs, "drop": drop}) + "\n```"
    return 200, {}, {"choices": [{"message": {"content": content}}]}


def passages(body: dict[str, Any]) -> dict[str, Any]:
    return json.loads(body["messages"][1]["content"])


async def found(engine: SqliteEngine, query: str, mode: FetchMode = FetchMode.VECTOR) -> list[str]:
    return [hit.text for hit in (await engine.fetch(FetchRequest(query=query, mode=mode))).hits]


def turn(text: str, index: int) -> Conversation:
    meta = {"thread_id": "t", "turns": {"first": index, "last": index}, "observed_at": "2026-05-01T00:00:00Z"}
    return Conversation.model_validate({"turns": [{"role": "user", "text": text}], "meta": meta})


async def build(engine: SqliteEngine) -> int | None:
    return (await engine.consolidate(ConsolidateRequest(reach=EVERYWHERE))).built


async def believed(engine: SqliteEngine) -> list[str]:
    return sorted(hit.text for hit in await engine.beliefs(BeliefsRequest(limit=50)))


async def test_a_services_vectors_find_what_shares_no_word(service: Service, path: Path) -> None:
    service.answer = vectors
    embedder = OpenAiEmbedder("tiny", 4, api_key=KEY, base_url=service.url)
    async with SqliteEngine(path, embedder=embedder) as engine:
        await engine.store_many([Learning(text="a dog"), Learning(text="an oak"), Learning(text="a car")])

        assert (await found(engine, "pets"))[0] == "a dog"
        assert (await found(engine, "flora", FetchMode.HYBRID))[0] == "an oak"

    route, authorization, body = service.calls[0]
    assert (route, authorization) == ("/v1/embeddings", f"Bearer {KEY}")
    assert body == {"model": "tiny", "input": ["a dog", "an oak", "a car"], "encoding_format": "float"}


async def test_the_sections_of_a_pack_ask_for_the_querys_vector_once(service: Service, path: Path) -> None:
    service.answer = vectors
    async with SqliteEngine(path, embedder=OpenAiEmbedder("tiny", 4, base_url=service.url)) as engine:
        await engine.store(Learning(text="a dog"))
        pack = await holistic_recall(
            engine, HolisticRecall([ScopeSection("One"), ScopeSection("Two")], "pets")
        )

    assert pack.refs
    assert len(service.calls) == 2


async def test_the_query_of_a_fetch_that_is_given_up_still_serves_others(
    service: Service, path: Path
) -> None:
    service.answer = vectors
    async with SqliteEngine(path, embedder=OpenAiEmbedder("tiny", 4, base_url=service.url)) as engine:
        await engine.store(Learning(text="a dog"))
        given_up, kept = (asyncio.create_task(found(engine, "pets")) for _ in range(2))
        await asyncio.sleep(0)
        given_up.cancel()

        assert await kept == ["a dog"]


async def test_an_accepted_item_waits_for_no_service_and_gets_its_vector_later(
    service: Service, path: Path
) -> None:
    service.answer = vectors
    async with SqliteEngine(path, embedder=OpenAiEmbedder("tiny", 4, base_url=service.url)) as engine:
        await engine.store_with(Learning(text="a dog"), WaitFor.ACCEPTED)
        assert service.calls == []

        assert await found(engine, "dog", FetchMode.KEYWORD) == ["a dog"]
        assert await found(engine, "pets") == ["a dog"]


async def test_a_store_whose_vector_cannot_be_made_stores_nothing(service: Service, path: Path) -> None:
    service.answer = lambda route, body: (503, {"retry-after": "9"}, {})
    async with SqliteEngine(path, embedder=OpenAiEmbedder("tiny", 4, base_url=service.url)) as engine:
        with pytest.raises(UnavailableError) as raised:
            await engine.store(Learning(text="a dog"))

        assert raised.value.retry_after == 9
        assert await found(engine, "dog", FetchMode.KEYWORD) == []


async def test_another_embedder_makes_its_own_vectors_of_what_is_there(service: Service, path: Path) -> None:
    service.answer = vectors
    async with SqliteEngine(path) as local:
        await local.store_many([Learning(text=f"a dog {number}") for number in range(100)])
        await local.store_many([Learning(text=f"an oak {number}") for number in range(100)])

    async with SqliteEngine(path, embedder=OpenAiEmbedder("tiny", 4, base_url=service.url)) as engine:
        assert (await found(engine, "pets"))[0].startswith("a dog")
        assert len(service.calls) == 5  # 200 pieces, 64 and 64 of 128, then 64 and 8 of 72; and the query
        await engine.store(Learning(text="a rose"))

    async with SqliteEngine(path) as local:
        assert (await found(local, "roses"))[0] == "a rose"


@pytest.mark.parametrize(
    "answer", [{"data": []}, {"data": [{"index": 0, "embedding": [1.0]}]}, {"x": 1}, b"<html>"]
)
async def test_an_answer_that_is_no_vector_is_the_engines_failure(
    service: Service, path: Path, answer: object
) -> None:
    service.answer = lambda route, body: (200, {}, answer)
    async with SqliteEngine(path, embedder=OpenAiEmbedder("tiny", 4, base_url=service.url)) as engine:
        with pytest.raises(EngineError):
            await engine.store(Learning(text="a dog"))


async def test_a_models_beliefs_are_kept_with_kind_confidence_and_grounds(
    service: Service, path: Path
) -> None:
    service.answer = lambda route, body: says(
        {"text": "Ana prefers e-mail.", "kind": "preference", "confidence": 0.9, "passages": [2]},
        {"text": " ", "passages": [1]},
        {"text": "The box is for two.", "kind": "nonsense", "confidence": 7, "passages": [99]},
    )
    async with SqliteEngine(
        path, distiller=ChatDistiller("chat", api_key=KEY, base_url=service.url)
    ) as engine:
        await engine.store(turn("The box is for two.", 0))
        second = await engine.store(turn("I am Ana and prefer e-mail.", 1))
        assert await build(engine) == 2

        assert await believed(engine) == ["Ana prefers e-mail.", "The box is for two."]
        await engine.forget(ForgetTarget.ids([second.id]))
        assert await believed(engine) == []

    route, authorization, body = service.calls[0]
    assert (route, authorization) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert body["max_tokens"] == 1_500
    assert passages(body) == {
        "known": [],
        "passages": [
            {"number": 1, "at": "2026-05-01T00:00:00Z", "text": "user: The box is for two."},
            {"number": 2, "at": "2026-05-01T00:00:00Z", "text": "user: I am Ana and prefer e-mail."},
        ],
    }


async def test_a_model_reads_what_is_new_and_drops_what_no_longer_holds(service: Service, path: Path) -> None:
    service.answer = lambda route, body: says({"text": "The budget is 5000.", "passages": [1]})
    async with SqliteEngine(path, distiller=ChatDistiller("chat", base_url=service.url)) as engine:
        for index in range(6):
            await engine.store(turn(f"turn {index}", index))
        await build(engine)
        await engine.store(turn("The budget is 7000.", 6))
        service.answer = lambda route, body: says({"text": "The budget is 7000.", "passages": [5]}, drop=(1,))
        await build(engine)

        assert await believed(engine) == ["The budget is 7000."]

    shown = passages(service.calls[1][2])
    assert shown["known"] == [{"number": 1, "text": "The budget is 5000."}]
    assert [passage["text"] for passage in shown["passages"]] == [
        *(f"user: turn {index}" for index in (2, 3, 4, 5)),
        "user: The budget is 7000.",
    ]


async def test_a_long_document_is_read_in_bearable_calls_up_to_a_limit(service: Service, path: Path) -> None:
    service.answer = lambda route, body: says({"text": f"call {len(service.calls)}"})
    async with SqliteEngine(path, distiller=ChatDistiller("chat", base_url=service.url)) as engine:
        await engine.store(Document.model_validate({"body": "word " * 40_000}))
        await build(engine)

        assert await believed(engine) == [f"call {number}" for number in (1, 2, 3, 4)]
    assert all(len(json.dumps(body)) < 30_000 for _, _, body in service.calls)


QUOTA = {"error": {"message": "SECRET WORDS", "type": "insufficient_quota", "code": "insufficient_quota"}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {}, InvalidRequestError),
        (401, {"error": {"message": "SECRET WORDS", "code": "invalid_api_key"}}, UnauthorizedError),
        (402, {}, InsufficientCreditsError),
        (403, {}, UnauthorizedError),
        (404, {}, NotFoundError),
        (429, {}, UnavailableError),
        (429, QUOTA, InsufficientCreditsError),
        (500, {}, UnavailableError),
        (503, b"not json", UnavailableError),
        (307, {}, EngineError),
        (200, b"[1, 2]", EngineError),
        (200, {"choices": []}, EngineError),
        (200, {"choices": [{"message": {"content": None}}]}, EngineError),
        (200, {"choices": [{"message": {"content": "SECRET WORDS"}}]}, EngineError),
    ],
)
async def test_r47_each_refusal_has_its_class_costs_one_call_and_leaves_the_build_owed(
    service: Service,
    path: Path,
    status: int,
    body: object,
    kind: type[TinyMemoryError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    service.answer = lambda route, sent: (status, {"retry-after": "12"}, body)
    async with SqliteEngine(
        path, distiller=ChatDistiller("chat", api_key=KEY, base_url=service.url)
    ) as engine:
        for number in range(5):
            meta = {"thread_id": f"t{number}"}
            said = {"role": "user", "text": "SECRET WORDS"}
            await engine.store(Conversation.model_validate({"turns": [said], "meta": meta}))
        with pytest.raises(kind) as raised:
            await build(engine)

        assert type(raised.value) is kind
        assert len(service.calls) == 1
        assert len(await engine.unbuilt(EVERYWHERE)) == 1
    if isinstance(raised.value, UnavailableError):
        assert raised.value.retry_after == 12
    for text in (str(raised.value), caplog.text):
        assert "SECRET" not in text
        assert KEY not in text


async def test_a_service_that_is_not_there_is_unreachable(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with SqliteEngine(path, distiller=ChatDistiller("chat", base_url=url)) as engine:
            await engine.store(turn("hello there you", 0))
            with pytest.raises(UnreachableError, match="not reached"):
                await build(engine)


async def test_a_service_that_is_slow_is_unavailable(service: Service, path: Path) -> None:
    release = threading.Event()
    service.answer = lambda route, body: (200, {}, {"waited": release.wait(10)})
    distiller = ChatDistiller("chat", base_url=service.url, timeout=0.1)
    async with SqliteEngine(path, distiller=distiller) as engine:
        await engine.store(turn("hello there you", 0))
        with pytest.raises(UnavailableError, match="in time"):
            await build(engine)
        release.set()


@pytest.mark.parametrize("url", ["", "ftp://x.test", "http://model.test/v1", "https://user:pw@x.test", "x"])
def test_a_base_url_that_cannot_be_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ChatDistiller("chat", api_key=KEY, base_url=url)

    assert "pw" not in str(raised.value)


def test_one_distiller_serves_several_event_loops(service: Service, path: Path) -> None:
    service.answer = lambda route, body: says({"text": f"call {len(service.calls)}"})
    engine = SqliteEngine(path, distiller=ChatDistiller("chat", api_key=KEY, base_url=service.url))

    async def once(index: int) -> None:
        async with engine:
            await engine.store(turn(f"turn {index}", index))
            await build(engine)

    for index in range(2):
        asyncio.run(once(index))

    assert len(service.calls) == 2
    assert KEY not in repr(engine)
