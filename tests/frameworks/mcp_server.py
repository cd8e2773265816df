"""An MCP server over stdio that ends when its tool is called."""

from __future__ import annotations

import os

from mcp.server.mcpserver import MCPServer

server = MCPServer("mortal", log_level="WARNING")


@server.tool()
def end() -> str:
    """End the server in the middle of this call."""
    os._exit(3)


if __name__ == "__main__":
    server.run("stdio")
