"""The wire APIs of known packages that are not installed, for messages."""

from __future__ import annotations

from astuner.model.gateway.wire_apis.wire_api import compile_path
from astuner.shared.install_hints import command_for, is_installed
from astuner.shared.known_packages import read_known_packages


def find_known_api(path: str) -> str | None:
    """Return the name of the wire API of a known package that serves a path."""
    paths = read_known_packages().wire_api_paths
    return next((name for name in paths if any(compile_path(pattern).fullmatch(path) for pattern in paths[name])), None)


def find_remedy(path: str) -> str | None:
    """Return the command that installs the package whose wire API serves a path; None for others, and if it is installed."""
    name = find_known_api(path)
    package = None if name is None else read_known_packages().package_of("wire_api", name)
    return None if name is None or package is None or is_installed(package) else command_for("wire_api", name)
