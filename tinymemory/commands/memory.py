"""`tinymemory search`, `recall` and `forget`: memory for people at a terminal."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from tinymemory.config import MemoryConfig
from tinymemory.engine import MemoryEngine
from tinymemory.errors import InvalidRequestError, NotFoundError
from tinymemory.exit import ExitCode
from tinymemory.layout import BrainSource, MemoryLayout
from tinymemory.meta import MetaFilter
from tinymemory.namespace import Namespace
from tinymemory.query import (
    MAX_GET_IDS,
    FetchMode,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    Hit,
    ListRequest,
    RecallRequest,
)

T = TypeVar("T")
SNIPPET = 200
"""Characters of a hit's text that are shown."""

RootOption = Annotated[str, typer.Option("--root", envvar="TINYMEMORY_ROOT", help="The tenant's root.")]
SourceOption = Annotated[str | None, typer.Option("--source", help="Only this source's documents.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

commands = typer.Typer()


@commands.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    root: RootOption = "root",
    source: SourceOption = None,
    all_: Annotated[bool, typer.Option("--all", help="Conversations and learnings too.")] = False,
    mode: Annotated[
        FetchMode | None, typer.Option(help="How to rank; the engine's best unless told.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most so many.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Find what the brain holds, best first."""
    wanted = _filter(root, source, everything=all_)

    async def find(engine: MemoryEngine) -> list[Hit]:
        modes = engine.descriptor.fetch_modes
        chosen = mode or (FetchMode.HYBRID if FetchMode.HYBRID in modes else modes[0])
        page = await engine.fetch(FetchRequest(query=query, mode=chosen, filter=wanted, limit=limit))
        return page.hits

    hits = _with_engine(find)
    if as_json:
        typer.echo(json.dumps([hit.model_dump(mode="json") for hit in hits], ensure_ascii=False))
        return
    if not hits:
        typer.echo("nothing found", err=True)
    out = Console(width=None if sys.stdout.isatty() else 200)
    for hit in hits:
        # Whole and in one line however narrow the terminal: `forget` takes no part of an id.
        out.print(Text.assemble((_place(hit), "bold"), f"  {hit.score:.4f}  {hit.id}"), soft_wrap=True)
        out.print(Text(f"  {_snippet(hit)}"))


@commands.command()
def recall(
    question: Annotated[str, typer.Argument(help="What to answer.", show_default=False)],
    root: RootOption = "root",
    source: SourceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Read at most so many items.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from memory, with what the answer rests on."""
    wanted = _filter(root, source, everything=source is None)
    answer = _with_engine(
        lambda engine: engine.recall(RecallRequest(question=question, filter=wanted, limit=limit))
    )
    if as_json:
        typer.echo(answer.model_dump_json())
        return
    typer.echo(answer.answer)
    for citation in answer.citations:
        typer.echo(f"  [{citation.id}] {' '.join(citation.snippet.split())[:SNIPPET]}")


@commands.command()
def forget(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of items.", show_default=False)] = None,
    source: Annotated[str | None, typer.Option("--source", help="All documents of this source.")] = None,
    file: Annotated[str | None, typer.Option("--file", help="All documents of this file or folder.")] = None,
    root: RootOption = "root",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove items for good, and the beliefs that were built from them."""
    if not (ids or source or file):
        raise InvalidRequestError("name ids, or choose by --source or --file")
    if ids and (source or file):
        raise InvalidRequestError("ids cannot be combined with --source or --file")

    if ids:
        target, what = _with_engine(lambda engine: _items(engine, ids))
    else:
        wanted = _filter(root, source)
        paths = _paths(file)
        target, what = _with_engine(lambda engine: _documents(engine, wanted, paths))
    if not yes:
        if not sys.stdin.isatty():
            typer.secho(f"{what} would be forgotten for good: pass --yes", fg="red", err=True)
            raise typer.Exit(ExitCode.USAGE)
        typer.confirm(f"Forget {what} for good?", abort=True)
    forgotten = _with_engine(lambda engine: engine.forget(target)).forgotten
    typer.echo(json.dumps({"forgotten": forgotten}) if as_json else f"forgot {forgotten}")


async def _items(engine: MemoryEngine, ids: list[str]) -> tuple[ForgetTarget, str]:
    known: set[str] = set()
    for start in range(0, len(ids), MAX_GET_IDS):
        some = GetRequest(ids=tuple(ids[start : start + MAX_GET_IDS]))
        known |= {hit.id for hit in await engine.get(some)}
    if unknown := [id_ for id_ in ids if id_ not in known]:
        raise NotFoundError(f"memory holds no item `{'`, `'.join(unknown)}`: nothing was forgotten")
    return ForgetTarget.ids(ids), f"{len(known)} items"


async def _documents(
    engine: MemoryEngine, wanted: MetaFilter, paths: list[str | None]
) -> tuple[ForgetTarget, str]:
    for path in paths:
        chosen = wanted.model_copy(update={"file_path": path})
        page = await engine.list(ListRequest(filter=chosen, limit=1000))
        while not page.items and page.next_cursor:  # an engine may have looked through much in vain
            page = await engine.list(ListRequest(filter=chosen, limit=1000, cursor=page.next_cursor))
        if page.items:
            what = f"{len(page.items)}{'+' if page.next_cursor else ''} documents"
            return ForgetTarget.filter(chosen), what if path is None else f"{what} of {path}"
    chosen_by = "of that source" if paths[0] is None else f"of `{paths[0]}`"
    raise NotFoundError(f"that root holds no document {chosen_by}: nothing was forgotten")


def _paths(file: str | None) -> list[str | None]:
    # As `ingest` files it, or else as a host may have.
    return [None] if file is None else [str(Path(file).expanduser().resolve()), file]


def _with_engine(work: Callable[[MemoryEngine], Awaitable[T]]) -> T:
    async def opened() -> T:
        async with MemoryConfig.from_env().build() as engine:
            return await work(engine)

    return asyncio.run(opened())


def _filter(root: str, source: str | None, *, everything: bool = False) -> MetaFilter:
    layout = MemoryLayout(Namespace.parse(root))
    if everything and source is None:
        return layout.holistic_filter()
    return layout.brain_filter(BrainSource(source) if source else None)


def _place(hit: Hit) -> str:
    meta = hit.meta
    parts: list[Any] = [str(meta.namespace), meta.file_path or meta.thread_id, *meta.tags]
    return "  ".join(str(part) for part in parts if part)


def _snippet(hit: Hit) -> str:
    text = " ".join(hit.text.split())
    return text if len(text) <= SNIPPET else text[: SNIPPET - 1] + "…"
