from __future__ import annotations

from run_fixtures import cli, project, python_server, quickstart, separate_cli

__all__ = ["cli", "project", "python_server", "quickstart", "separate_cli"]
