"""An MCP server with a calculator. Over stdio; with `--port`, over streamable HTTP on 127.0.0.1."""

from __future__ import annotations

import argparse
import math

from mcp.server.mcpserver import MCPServer

server = MCPServer("calculator", log_level="WARNING")


@server.tool()
def calculator(expression: str) -> str:
    """Multiply the whole numbers of an expression such as 12*34."""
    try:
        return str(math.prod(map(int, expression.split("*"))))
    except ValueError as error:
        return f"error: {error}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int)
    if (port := parser.parse_args().port) is None:
        server.run("stdio")
    else:
        server.run("streamable-http", port=port, stateless_http=True)
