import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
SECRET = "sk-live-do-not-show-me-0123456789"  # what must not be seen


def screenshot(page: Page, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}.png")


def test_the_tasks_page_has_a_row_for_each_run_with_its_scope_and_state(page: Page, shown: Any) -> None:
    page.goto(f"{shown.url}/tasks")

    for key, scope, state in (
        (shown.done, "team:acme/agent:support-01", "SUCCESS"),
        (shown.retried, "team:acme/agent:again", "RETRY"),
        (shown.dead, "team:acme/agent:dead", "FAILURE"),
    ):
        row = page.locator("tr", has_text=key)
        expect(row).to_contain_text(scope)
        expect(row).to_contain_text(state)
        expect(row).to_contain_text("tinymemory.build_beliefs")
    screenshot(page, "flower-tasks")


def test_a_task_page_says_what_came_of_the_run(page: Page, shown: Any) -> None:
    page.goto(f"{shown.url}/tasks")
    page.get_by_role("link", name=shown.done).click()

    body = page.locator("body")
    expect(body).to_contain_text("team:acme/agent:support-01")
    expect(body).to_contain_text('"outcome": "done"')
    expect(body).to_contain_text("SUCCESS")
    screenshot(page, "flower-task")


def test_the_workers_page_shows_who_is_online(page: Page, shown: Any) -> None:
    page.goto(f"{shown.url}/workers")

    row = page.locator("tr", has_text="worker1@")
    expect(row).to_contain_text("Online")
    screenshot(page, "flower-workers")


def test_no_page_shows_a_credential(page: Page, shown: Any) -> None:
    page.goto(f"{shown.url}/tasks")
    page.get_by_role("link", name=shown.dead).click()
    expect(page.locator("body")).to_contain_text("ConfigError")
    seen = page.content()
    page.goto(f"{shown.url}/broker")
    seen += page.content()
    page.goto(f"{shown.url}/workers")
    page.locator("a", has_text="worker1@").first.click()
    page.wait_for_load_state()
    seen += page.content()

    assert SECRET not in seen


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/tasks"),
        ("GET", "/api/tasks"),
        ("GET", "/api/workers"),
        ("GET", "/metrics"),
        ("POST", "/api/worker/shutdown/worker1"),
        ("POST", "/api/task/revoke/some-task"),
    ],
)
def test_r37_nothing_answers_without_the_login(shown: Any, method: str, path: str) -> None:
    answer = httpx.request(method, shown.url + path, trust_env=False, follow_redirects=False)

    assert answer.status_code in (401, 403)


def test_flower_refuses_a_public_address_without_a_login() -> None:
    command = [sys.executable, "-m", "tinymemory", "flower", "--address", "0.0.0.0", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert refused.returncode == 78
    assert "--basic-auth" in refused.stderr
