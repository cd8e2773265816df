"""The components of an earlier start of the same run."""

from __future__ import annotations

from pathlib import Path

from astuner.runs.store.directory import RunDirectory, get_throwaway_directory
from astuner.shared.install_hints import install_command, is_installed


def find_reinstall_hint(directory: Path, backbone: str, kind: str, spec: str) -> str | None:
    """Return how to reinstall a component that the run had when it was last started."""
    places = (directory, get_throwaway_directory(directory, backbone))
    for row in (row for place in places for row in RunDirectory(place).run.get("plugins", ())):
        name, dist, was = row["name"], row["distribution"], row["version"]
        # A component given by its path has no version and no package.
        if row["kind"] == kind and spec in (name, f"{dist}/{name}") and was and not is_installed(dist):
            return f"This run had it from {dist} {was}: {install_command(f'{dist}=={was}')}"
    return None
