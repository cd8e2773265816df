"""Which package brings a component that is not installed, and the command that installs it.

Only words for messages: nothing is ever imported from here.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from astuner.published import read_published


def is_installed(package: str) -> bool:
    """Whether a distribution of this name is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def command_for(kind: str, name: str) -> str | None:
    """Return the one command that installs a published component, or None for an unknown name."""
    requirement = read_published().components.get((kind, name))
    return None if requirement is None else install_command(requirement)


def install_command(requirement: str) -> str:
    """Return `pip install …`, quoted where a shell would read the brackets or comparisons."""
    return f"pip install '{requirement}'" if any(mark in requirement for mark in "[]<>!~ ") else f"pip install {requirement}"
