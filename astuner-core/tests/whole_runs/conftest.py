from __future__ import annotations

from run_fixtures import cli, python_server, separate_cli

__all__ = ["cli", "python_server", "separate_cli"]
