"""Flower as operators see it: a page on a real worker's events, in a real browser."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from harness import Live, build, until
from playwright.sync_api import Browser, Page, sync_playwright

from workers.embedded import free_port
from workers.testing import RedisServer

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
LOGIN = ("operator", "let-me-in")
SECRET = "sk-live-do-not-show-me-0123456789"  # what must not be seen
# Chromium calls home otherwise, and as root it has no sandbox.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class Shown:
    """Where Flower is, and the key of one job of each kind that it has seen."""

    url: str
    done: str
    retried: str
    dead: str


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        assert not os.environ.get("CI"), "CI needs chromium"
        pytest.skip("no chromium on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def page(shown: Shown, chromium: Browser) -> Iterator[Page]:
    # In this order: once Playwright runs, its own event loop is the thread's.
    context = chromium.new_context(
        http_credentials={"username": LOGIN[0], "password": LOGIN[1]},
        viewport={"width": 1600, "height": 700},
    )
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A worker and Flower, once they have run a job that went well, one that goes again, one given up."""
    folder = tmp_path_factory.mktemp("flower")
    url = f"http://127.0.0.1:{free_port()}"
    with RedisServer(folder / "redis") as redis:
        live = Live(folder, redis.url)
        with live.programs as programs:
            port = url.rpartition(":")[2]
            programs.start("flower", "--port", port, "--basic-auth", ":".join(LOGIN), wait=False)
            programs.start("worker", "--hostname", "worker1@%h")
            yield asyncio.run(_seen(live, url))
        live.redis.close()


async def _seen(live: Live, url: str) -> Shown:
    again, dead = "team:acme/agent:again", "team:acme/agent:dead"
    live.stub.behave(again, error="UnavailableError", **{"with": {"retry_after": 600}})
    live.stub.behave(dead, error="ConfigError", message=f"the key {SECRET} was rejected, api_key={SECRET}")
    async with httpx.AsyncClient(auth=LOGIN, trust_env=False) as client:

        async def knows(rows: int) -> bool:
            try:
                return len((await client.get(f"{url}/api/tasks")).json()) >= rows
            except (httpx.HTTPError, ValueError):
                return False

        async def sees_the_worker() -> bool:
            try:
                return "worker1" in (await client.get(f"{url}/workers?json=1")).text
            except httpx.HTTPError:
                return False

        await until(sees_the_worker)
        accepted = await live.enqueue(
            *(build(at) for at in ("team:acme/agent:support-01", again, dead)), root="team:acme"
        )
        await live.sweep()
        await until(lambda: knows(3))
    return Shown(url, *(one.key for one in accepted))
