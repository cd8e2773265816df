from __future__ import annotations

from run_fixtures import bash, cli, project, python_server, quickstart, separate_cli

__all__ = ["bash", "cli", "project", "python_server", "quickstart", "separate_cli"]
