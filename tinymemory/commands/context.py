"""`tinymemory context`: print the context.md of a tenant or of one agent."""

import asyncio
from typing import Annotated

import typer

from tinymemory.commands.mcp import tool_scope
from tinymemory.config import MemoryConfig
from tinymemory.context import ContextDoc, ContextSpec, compile_context

_DEFAULT = ContextSpec()

commands = typer.Typer()


@commands.command("context")
def context(
    root: Annotated[str, typer.Option(help="The tenant, such as team:acme.")] = "root",
    agent: Annotated[
        str | None,
        typer.Option(help="Only what this agent's tools read: its own memory and what is above it."),
    ] = None,
    budget: Annotated[int, typer.Option(min=1, help="Tokens of the document.")] = _DEFAULT.budget_tokens,
    learnings: Annotated[
        int, typer.Option(min=0, help="Learnings to list; 0 leaves them out.")
    ] = _DEFAULT.learnings_limit,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, the document in it.")] = False,
) -> None:
    """Compile a brief of what memory holds, for the top of a system prompt."""
    scope = tool_scope(root, agent, read_only=True)
    spec = ContextSpec(budget_tokens=budget, learnings_limit=learnings, reach=scope.reach)
    doc = asyncio.run(_compile(spec))
    typer.echo(doc.model_dump_json() if as_json else doc.markdown, nl=as_json)


async def _compile(spec: ContextSpec) -> ContextDoc:
    async with MemoryConfig.from_env().build() as engine:
        return await compile_context(engine, spec)
