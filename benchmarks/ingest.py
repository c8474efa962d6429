"""Files into the brain: conversion beside markitdown, and ten thousand notes through two workers.

    python benchmarks/ingest.py                       # both parts
    python benchmarks/ingest.py --files 1000          # a shorter second part
    python benchmarks/ingest.py --rounds 0            # the second part alone
    python benchmarks/ingest.py --markitdown PYTHON   # another interpreter that has markitdown

The converters run as they do in production, in a process of their own with limits, and the parent's
memory counts too.  Ratios are of one run on one machine.
"""

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "tests" / "tinymemory" / "documents" / "corpus"
OURS = """
import asyncio, json, resource, sys, time
from pathlib import Path
from tinymemory.documents import Converters, RawDocument

async def main(paths, rounds):
    characters = 0
    async with Converters(processes=1) as converters:
        await converters.convert(RawDocument(Path(paths[0]).read_bytes(), Path(paths[0]).name))
        started = time.perf_counter()
        for _ in range(rounds):
            for path in paths:
                raw = RawDocument(Path(path).read_bytes(), Path(path).name)
                characters += len((await converters.convert(raw))[1].text)
        seconds = time.perf_counter() - started
    kib = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"seconds": seconds, "mib": kib / 1024, "characters": characters}))

if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), int(sys.argv[2])))
"""
THEIRS = """
import json, resource, sys, time
from markitdown import MarkItDown

paths, rounds = json.loads(sys.argv[1]), int(sys.argv[2])
converter = MarkItDown()
converter.convert(paths[0])
characters = 0
started = time.perf_counter()
for _ in range(rounds):
    for path in paths:
        characters += len(converter.convert(path).text_content)
seconds = time.perf_counter() - started
mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "mib": mib, "characters": characters}))
"""
FORMATS = ("pdf", "docx", "pptx", "xlsx", "html", "epub", "csv")


def main() -> None:
    """Run both parts and print their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markitdown", default=sys.executable, help="an interpreter that has markitdown")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--files", type=int, default=10_000)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    if arguments.rounds:
        conversion(arguments.markitdown, arguments.rounds)
    if arguments.files:
        volume(arguments.files)


def conversion(markitdown: str, rounds: int) -> None:
    """Pages a second and peak memory, format by format."""
    has_markitdown = subprocess.run([markitdown, "-c", "import markitdown"], capture_output=True, check=False)
    if has_markitdown.returncode:
        print("markitdown is not installed: its columns are empty\n")
    print(f"{'format':8} {'pages/s':>9} {'peak MiB':>9}   {'markitdown':>10} {'peak MiB':>9}   {'ratio':>6}")
    for format_ in FORMATS:
        paths = sorted(str(path) for path in (CORPUS / format_).iterdir())
        pages = rounds * sum(map(_pages, paths))
        ours = _measured(sys.executable, OURS, paths, rounds)
        line = f"{format_:8} {pages / ours['seconds']:9.0f} {ours['mib']:9.0f}"
        if not has_markitdown.returncode:
            theirs = _measured(markitdown, THEIRS, paths, rounds)
            ratio = theirs["seconds"] / ours["seconds"]
            line += f"   {pages / theirs['seconds']:10.0f} {theirs['mib']:9.0f}   {ratio:5.1f}x"
        print(line)
    print()


def volume(files: int) -> None:
    """Notes of 1 to 50 KB, from files to the embedded engine through two workers."""
    from workers.testing import RedisServer

    with (
        tempfile.TemporaryDirectory(prefix="tinymemory-bench-") as folder,
        RedisServer(Path(folder, "redis")) as redis,
    ):
        notes = Path(folder, "notes")
        _write_notes(notes, files)
        env = {
            **os.environ,
            "TINYMEMORY_REDIS_URL": redis.url,
            "TINYMEMORY_DATA_DIR": str(Path(folder, "data")),
            "TINYMEMORY_SWEEP_INTERVAL": "1",
            "TINYMEMORY_ROOT_CONCURRENCY": "16",
        }
        command = [sys.executable, "-m", "tinymemory"]
        parts = [
            subprocess.Popen([*command, *part], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for part in (["worker", "-n", "w1@%h"], ["worker", "-n", "w2@%h"], ["beat"])
        ]
        try:
            started = time.perf_counter()
            ingest = subprocess.Popen(
                [*command, "ingest", str(notes), "--root", "team:bench", "--wait", "--json"],
                env=env,
                stdout=subprocess.PIPE,
            )
            print(f"{'seconds':>8} {'stored':>8} {'files/s':>8} {'worker MiB':>11}")
            while ingest.poll() is None:
                time.sleep(10)
                _print_progress(env, parts[:2], time.perf_counter() - started)
            printed = ingest.communicate()[0]
            if not printed:
                sys.exit(f"the ingest ended with {ingest.returncode}")
            out = json.loads(printed)
            seconds = time.perf_counter() - started
            failed = len(out["failed"]) + len(out["jobs_failed"])
            print(f"\n{files} files in {seconds:.0f} s: {files / seconds:.0f} files/s, {failed} failed")
        finally:
            for part in parts:
                part.terminate()
            for part in parts:
                part.wait()


def _print_progress(env: dict[str, str], workers: "list[subprocess.Popen[bytes]]", seconds: float) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "tinymemory", "jobs", "history", "--limit", "100000", "--json"],
        env=env,
        capture_output=True,
        check=True,
    )
    stored = sum(run["stored"] or 0 for run in json.loads(listed.stdout))
    memory = " + ".join(f"{_resident_mib(worker.pid):.0f}" for worker in workers)
    print(f"{seconds:8.0f} {stored:8} {stored / seconds:8.0f} {memory:>11}", flush=True)


def _measured(python: str, script: str, paths: list[str], rounds: int) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [python, file.name, json.dumps(paths), str(rounds)], capture_output=True, text=True, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])


def _pages(path: str) -> int:
    if not path.endswith(".pdf"):
        return 1
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    try:
        return len(document)
    finally:
        document.close()


def _write_notes(folder: Path, files: int) -> None:
    chance = random.Random(7)
    words = Path(__file__).read_text().split()
    for number in range(files):
        path = folder / f"{number // 500:03}" / f"note-{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = int(1024 * 50 ** chance.random())
        text = f"# Note {number}\n\n"
        while len(text) < size:
            text += " ".join(chance.choices(words, k=40)) + ".\n\n"
        path.write_text(text)


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
