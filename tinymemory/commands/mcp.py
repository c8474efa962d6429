"""`tinymemory mcp`: the memory tools as an MCP server, for one agent."""

import asyncio
import ipaddress
import os
import socket
from contextlib import suppress
from typing import Annotated

import typer

from tinymemory.config import MemoryConfig
from tinymemory.errors import ConfigError, InvalidRequestError
from tinymemory.layout import MemoryLayout
from tinymemory.namespace import Namespace, Reach
from tinymemory.text import is_blank
from tinymemory.tools import MemoryTools, ToolScope

TOKEN_VARIABLE = "TINYMEMORY_MCP_TOKEN"  # the variable's name
PORT = 8765

commands = typer.Typer()


@commands.command("mcp")
def mcp(
    root: Annotated[str, typer.Option(help="The tenant, such as team:acme.")] = "root",
    agent: Annotated[
        str | None,
        typer.Option(help="Write at its node and read that and what is above; without, all of the root."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no store and no forget.")] = False,
    zone: Annotated[
        str | None, typer.Option(help="The IANA time zone of days the model names; UTC by default.")
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="Where to listen with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = PORT,
) -> None:
    """Serve the memory tools to an MCP client, confined to one tenant's agent."""
    scope = tool_scope(root, agent, read_only=read_only)
    listener = _listener(host, port) if http else None
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(scope, zone, listener))


def tool_scope(root: str, agent: str | None, *, read_only: bool) -> ToolScope:
    """An agent's scope: its own node and what is above; without an agent, the root's and all below it."""
    layout = MemoryLayout(Namespace.parse(root))
    if agent is None:
        return ToolScope(place=layout.root, reach=Reach.subtree(layout.root), writes=not read_only)
    if is_blank(agent):
        raise InvalidRequestError("`agent` is blank; leave it out to serve the whole root")
    node = layout.conversations(agent)
    return ToolScope(place=node, reach=Reach.of(node), writes=not read_only)


async def _serve(scope: ToolScope, zone: str | None, listener: socket.socket | None) -> None:
    try:
        # Half a second that no other command should pay for.
        from tinymemory.tools.mcp import serve_http, serve_stdio
    except ModuleNotFoundError as error:
        raise ConfigError(f"this needs {error.name}: pip install 'tinymemory[mcp]'") from error
    async with MemoryConfig.from_env().build() as engine:
        tools = MemoryTools(engine, scope)
        if zone is not None:
            tools = tools.in_zone(zone)
        if listener is None:
            await serve_stdio(tools)
        else:
            await serve_http(tools, listener, token=_token(), announce=_announce)


def _listener(host: str, port: int) -> socket.socket:
    if _token() is None and not _is_loopback(host):
        raise ConfigError(
            f"listening on {host} would let anybody in: set {TOKEN_VARIABLE} to a secret that clients send"
        )
    try:
        return socket.create_server((host, port), family=_family(host))
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token() -> str | None:
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None


def _announce(url: str) -> None:
    typer.echo(f"listening on {url}", err=True)
