"""`compose.yaml` and the `Dockerfile`: well-formed, safe, and each service's command run for real."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from programs import Program, Programs

from tinymemory.brain_input import BrainDocument
from tinymemory.jobs import IngestBrain
from workers.client import MemoryJobs
from workers.embedded import free_port, redis_executable
from workers.ledger import JobState
from workers.routing import all_queues
from workers.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
OWN = ("worker-beliefs", "worker-ingest", "worker-control", "beat", "flower")
ENV = {"REDIS_PASSWORD": "let-redis-in", "FLOWER_BASIC_AUTH": "operator:let-me-in"}
LOGIN = ("operator", "let-me-in")


def services() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def interpolated(value: Any) -> Any:
    """A value as compose would pass it on: `${NAME:-default}`, `${NAME:?why}` and `$$`."""
    match value:
        case str():
            filled = re.sub(
                r"(?<!\$)\$\{(\w+):([-?])([^}]*)\}",
                lambda found: ENV.get(found[1], found[3] if found[2] == "-" else ""),
                value,
            )
            return filled.replace("$$", "$")
        case list():
            return [interpolated(one) for one in value]  # pyright: ignore[reportUnknownVariableType]  # YAML is untyped
        case dict():
            return {name: interpolated(one) for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType]  # the same
        case _:
            return value


def test_the_compose_file_is_one_by_the_specification() -> None:
    # The specification's own JSON schema, which this package carries.
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run(
        [*command, ROOT / "compose.yaml"], capture_output=True, text=True, timeout=60, check=False
    )

    assert checked.returncode == 0, checked.stdout


def test_the_dockerfile_has_nothing_its_linter_minds() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    checked = subprocess.run(
        [hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False
    )

    assert checked.returncode == 0, checked.stdout


def test_the_image_is_built_in_two_stages_of_pinned_bases_and_runs_as_nobody_of_note() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM")]
    copied = {line.split()[1] for line in lines if line.startswith("COPY") and "--from" not in line}

    assert len(bases) == 2
    assert all(re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]
    assert all((ROOT / name).exists() for name in copied)


def test_every_service_is_pinned_and_every_port_is_published_to_this_machine_alone() -> None:
    for name, service in services().items():
        assert re.search(r":v?\d+\.\d+\.\d+(-\w+)?$", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert service["restart"] == "unless-stopped", name


@pytest.mark.parametrize("name", ["redis", *OWN])
def test_a_service_of_ours_can_do_no_more_than_it_must(name: str) -> None:
    service = services()[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["healthcheck"]["test"]
    assert name == "redis" or service["depends_on"] == {"redis": {"condition": "service_healthy"}}


def test_workers_have_longer_to_stop_than_their_runs_are_given() -> None:
    settings = WorkerSettings()

    for name in OWN[:3]:
        grace = int(services()[name]["stop_grace_period"].removesuffix("s"))
        assert grace >= settings.shutdown_grace + 15


def test_each_queue_has_a_worker_service_of_its_own() -> None:
    commands = [services()[name]["command"] for name in OWN[:3]]
    queues = [command[command.index("--queues") + 1] for command in commands]

    assert sorted(queues) == sorted(all_queues(WorkerSettings()))


def test_prometheus_scrapes_every_process_that_serves_metrics() -> None:
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    (static,) = job["static_configs"]
    port = services()["beat"]["environment"]["TINYMEMORY_METRICS_PORT"]

    assert sorted(static["targets"]) == sorted(f"{name}:{port}" for name in OWN if name != "flower")


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (ROOT / "compose.yaml").read_text()))
    offered = set(re.findall(r"^(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))

    assert asked == offered


@dataclass
class Stack:
    """Every service's own command, running on this machine."""

    redis: "subprocess.Popen[bytes]"
    started: dict[str, Program]
    settings: WorkerSettings
    env: dict[str, dict[str, str]]

    def healthy(self, name: str) -> bool:
        """Whether a service's health check passes, run as compose would run it."""
        test = interpolated(services()[name]["healthcheck"]["test"])
        kind, *command = test
        command = ["sh", "-c", *command] if kind == "CMD-SHELL" else command
        if command[0] == "tinymemory":
            command = [sys.executable, "-m", *command]
        environ = {**os.environ, **self.env[name]}
        return (
            subprocess.run(command, env=environ, capture_output=True, timeout=60, check=False).returncode == 0
        )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Redis, the workers, the beat and Flower by the commands and environments of `compose.yaml`."""
    folder = tmp_path_factory.mktemp("compose")
    port, flower_port = free_port(), free_port()
    # What differs from a container: the addresses, the folder, and that nobody waits a minute for a sweep.
    there = {
        "TINYMEMORY_DATA_DIR": str(folder / "data"),
        "TINYMEMORY_SWEEP_INTERVAL": "0.5",
        "FLOWER_PORT": str(flower_port),
    }
    env: dict[str, dict[str, str]] = {}
    for name, service in services().items():
        given: dict[str, str] = interpolated(service.get("environment", {}))
        here = {key: value.replace("@redis:6379", f"@127.0.0.1:{port}") for key, value in given.items()}
        env[name] = {**here, **there, "TINYMEMORY_METRICS_PORT": str(free_port())}
    # redis-cli in the health check asks the default port.
    env["redis"] |= {"REDISCLI_PORT": str(port)}
    command: list[str] = interpolated(services()["redis"]["command"])
    command[-1] = command[-1].replace("redis-server -", f"redis-server - --port {port} --bind 127.0.0.1")
    # Where none is installed, the one that the development environment carries.
    executable = redis_executable()
    assert executable is not None
    env["redis"]["PATH"] = os.pathsep.join([os.environ["PATH"], str(Path(executable).parent)])
    redis = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **env["redis"]}, stdout=subprocess.DEVNULL
    )
    with Programs(folder, {}) as programs:
        try:
            started = {
                name: programs.start(*interpolated(services()[name]["command"]), wait=False, **env[name])
                for name in OWN
            }
            settings = WorkerSettings.load(
                redis_url=env["beat"]["TINYMEMORY_REDIS_URL"], data_dir=folder / "data"
            )
            yield Stack(redis, started, settings, env)
        finally:
            redis.kill()
            redis.wait()


def test_all_services_together_become_healthy_and_run_a_job(stack: Stack) -> None:
    deadline = time.monotonic() + 90
    for name in OWN:
        while not stack.healthy(name):
            assert time.monotonic() < deadline, f"{name} is not well:\n{stack.started[name].log[-2000:]}"
            time.sleep(0.5)
    if shutil.which("redis-cli"):
        stack.env["redis"]["REDISCLI_AUTH"] = ENV["REDIS_PASSWORD"]
        (test,) = services()["redis"]["healthcheck"]["test"][1:]
        port = stack.env["redis"]["REDISCLI_PORT"]
        asked = interpolated(test).replace("redis-cli", f"redis-cli -p {port}")
        environ = {**os.environ, **stack.env["redis"]}
        assert subprocess.run(["sh", "-c", asked], env=environ, timeout=30, check=False).returncode == 0

    with MemoryJobs(stack.settings) as jobs:
        document = BrainDocument("pdf", "The deploy key is rotated each May.", title="Keys")
        (accepted,) = jobs.enqueue_sync([IngestBrain([document])], root="team:acme")
        status = jobs.wait_sync(accepted, timeout=60)
    assert status.state is JobState.DONE

    flower = f"http://127.0.0.1:{stack.env['flower']['FLOWER_PORT']}"
    assert httpx.get(f"{flower}/api/tasks", trust_env=False).status_code == 401
    while accepted.key not in httpx.get(f"{flower}/api/tasks", auth=LOGIN, trust_env=False).text:
        assert time.monotonic() < deadline, "Flower has no row of the job"
        time.sleep(0.3)
    for name in (*OWN[:3], "beat"):
        port = stack.env[name]["TINYMEMORY_METRICS_PORT"]
        told = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        assert 'tinymemory_jobs_done_total{profile="default",queue="tinymemory.ingest"} 1.0' in told, name


def test_sigterm_ends_every_service_well(stack: Stack) -> None:
    began = time.monotonic()
    for program in stack.started.values():
        program.process.terminate()
    codes = {name: program.process.wait(60) for name, program in stack.started.items()}
    stack.redis.terminate()

    assert codes == dict.fromkeys(OWN, 0)
    assert stack.redis.wait(20) == 0
    assert time.monotonic() - began < 45  # compose kills what is left after it
