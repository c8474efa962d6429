"""The tools as a server of the Model Context Protocol, over stdio or streamable HTTP.

Needs the `mcp` extra.  Source: https://modelcontextprotocol.io/specification
"""

import hmac
import logging
import socket
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp, Receive, Scope, Send

from tinymemory.tools.adapters import answer_call
from tinymemory.tools.memory_tools import MemoryTools
from tinymemory.tools.spec import ToolName, ToolSpec

PATH = "/mcp"
INSTRUCTIONS = (
    "Long-term memory. Recall or fetch before you answer what depends on earlier sessions, and store what "
    "later sessions should know: one statement a learning, understandable on its own."
)

_log = logging.getLogger(__name__)


def mcp_server(tools: MemoryTools) -> Server[Any]:
    """An MCP server that offers these tools and no others."""

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(spec) for spec in tools.specs()])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            text, is_error = await answer_call(tools, params.name, params.arguments)
        except Exception as error:  # whatever an engine raises, the session goes on
            _log.exception("mcp_call_failed", extra={"tool": params.name})
            text, is_error = f"error: an unexpected {type(error).__name__}", True
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

    return Server(
        "tinymemory",
        version=version("tinymemory"),
        title="TinyMemory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(tools: MemoryTools) -> None:
    """Serve one client over this process's standard streams, until it hangs up."""
    server = mcp_server(tools)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def serve_http(
    tools: MemoryTools, listener: socket.socket, *, token: str | None, announce: Callable[[str], None]
) -> None:
    """Serve streamable HTTP on a bound socket, until the process is told to stop.

    With a token, a request without it as its bearer is answered 401.
    """
    host, port = listener.getsockname()[:2]
    app: ASGIApp = mcp_server(tools).streamable_http_app(streamable_http_path=PATH, host=host)
    if token is not None:
        app = _Guarded(app, token)
    config = uvicorn.Config(app, log_level="warning", log_config=None)
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}")
    await uvicorn.Server(config).serve(sockets=[listener])


class _Guarded:
    """Lets nobody in without the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not hmac.compare_digest(_authorization(scope), self._wanted):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


def _authorization(scope: Scope) -> bytes:
    return next((value for name, value in scope["headers"] if name == b"authorization"), b"")


def _tool(spec: ToolSpec) -> types.Tool:
    name = ToolName(spec.name)
    return types.Tool(
        name=spec.name,
        description=spec.description,
        input_schema=spec.parameters,
        annotations=types.ToolAnnotations(
            read_only_hint=not name.is_write,
            destructive_hint=name is ToolName.FORGET,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
