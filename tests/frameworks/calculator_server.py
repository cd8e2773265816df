"""An MCP server over stdio with a calculator, for both versions of `mcp`: AgentScope 1 needs the first."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version

COMMAND = (sys.executable, __file__)


def calculator(expression: str) -> str:
    """Calculate."""
    return f"408 – {expression}"


def main() -> None:
    module, name = ("fastmcp", "FastMCP") if version("mcp").startswith("1.") else ("mcpserver", "MCPServer")
    server = getattr(importlib.import_module(f"mcp.server.{module}"), name)("sums", log_level="WARNING")
    server.tool()(calculator)
    server.run("stdio")


if __name__ == "__main__":
    main()
