"""§9 items 1 to 5: where an engine may be pointed, and with what."""

from collections.abc import Callable

import pytest

from tinymemory import ConfigError, ListRequest
from tinymemory.engines.cortex import CortexEngine
from tinymemory.testing import CortexServer

Connect = Callable[..., CortexEngine]


@pytest.mark.parametrize(
    "url",
    ["", "   ", "cortex.example.com", "ftp://cortex.example.com", "https://", "https://[::1", "file:///tmp/x",
     "https://host:notaport", "https://host:70000", "mailto:ann@example.com", "https://a b.example.com\n"],
)  # fmt: skip
def test_an_endpoint_that_is_no_http_url_is_a_configuration_error(connect: Connect, url: str) -> None:
    # §9 item 1
    with pytest.raises(ConfigError):
        connect(url)


@pytest.mark.parametrize(
    "url",
    ["http://cortex.example.com", "http://10.0.0.1", "http://0.0.0.0", "http://[::2]", "http://localhost.evil.com",
     "http://127.0.0.1.evil.com", "http://[::ffff:127.0.0.1]", "HTTP://128.0.0.1"],
)  # fmt: skip
def test_cleartext_to_another_machine_is_refused(connect: Connect, url: str) -> None:
    # §9 item 2
    with pytest.raises(ConfigError, match="https"):
        connect(url)


@pytest.mark.parametrize(
    "url",
    ["http://localhost:3141", "http://LOCALHOST", "http://127.0.0.1", "http://127.0.0.2:8080", "http://[::1]:3141"],
)  # fmt: skip
def test_cleartext_to_this_machine_is_allowed(connect: Connect, url: str) -> None:
    # §9 item 2
    assert connect(url).descriptor.needs_key


@pytest.mark.parametrize(
    "url",
    ["https://ann:hunter2@cortex.example.com", "https://hunter2@cortex.example.com",
     "https://cortex.example.com/?key=hunter2", "https://cortex.example.com/#hunter2",
     "https://cortex.example.com/path?"],
)  # fmt: skip
def test_a_user_a_query_or_a_fragment_is_refused_without_being_shown(connect: Connect, url: str) -> None:
    # §9 item 3
    with pytest.raises(ConfigError) as caught:
        connect(url)

    assert "hunter2" not in str(caught.value)
    assert "example.com" not in str(caught.value)


@pytest.mark.parametrize("path", ["/cortex", "/cortex/", "/a/b/cortex"])
async def test_a_path_in_the_endpoint_is_kept(server: CortexServer, connect: Connect, path: str) -> None:
    # §9 item 4
    server.knobs.fail_all = (400, "NOPE")
    async with connect(server.url + path) as engine:
        await engine.health()

    assert server.seen.requests[0].startswith(f"GET {path.rstrip('/')}/")
    assert "//" not in server.seen.requests[0]


@pytest.mark.parametrize("key", ["", " ", "\n\t", "\u2003"])
def test_a_blank_static_key_is_a_configuration_error(connect: Connect, key: str) -> None:
    # §9 item 5
    with pytest.raises(ConfigError):
        connect("https://cortex.example.com", key)


def test_a_repr_shows_the_engine_and_its_origin_and_nothing_else(connect: Connect, wire: str) -> None:
    id_ = "tinyhumans" if wire == "hosted" else "cortexdb"

    assert repr(connect("https://cortex.example.com/secret-path")) == (
        f"CortexEngine(id='{id_}', origin='https://cortex.example.com:443')"
    )


async def test_values_in_a_query_are_percent_encoded_byte_by_byte(
    engine: CortexEngine, server: CortexServer
) -> None:
    await engine.list(
        ListRequest.model_validate({"filter": {"reach": {"at": "agent:pad_1", "inherit": False}}})
    )

    assert any(
        "scope=app%3Atinymemory%2Fagent%3Apad_1%2Fapp%3Alearnings&limit=200" in request
        for request in server.seen.requests
    )
