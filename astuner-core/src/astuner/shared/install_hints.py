"""Which package brings a component that is not installed, and the command that installs it.

Only words for messages: nothing is ever imported from here.
"""

from __future__ import annotations

import json
import re
import shlex
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from urllib.parse import unquote, urlsplit

from astuner.shared.known_packages import CORE, read_known_packages


def is_installed(package: str) -> bool:
    """Whether a distribution of this name is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def command_for(kind: str, name: str) -> str | None:
    """Return the one command that installs a published component, or None for an unknown name."""
    requirement = read_known_packages().components.get((kind, name))
    return None if requirement is None else install_command(requirement)


def explain_missing_module(error: BaseException) -> str:
    """Return what to do if code that was written for another AgentScope cannot be imported; empty for other errors."""
    name = error.name or "" if isinstance(error, ImportError) else ""
    if name.startswith("agentscope.tuner"):
        return (
            ". AgentScope 2 has no such module: return any object with `reward`, `response` and `metrics`, such as an "
            "astuner.WorkflowOutput(reward=..., response=...), or install agentscope<2"
        )
    if name == "dspy":
        return f". The module agentscope.tuner of AgentScope 1 needs it: {install_from_index('dspy')}"
    if name.startswith("agentscope.") and is_installed("agentscope"):
        here = version("agentscope")
        other, wanted = (2, "'agentscope>=2'") if here.startswith("1.") else (1, "'agentscope<2' 'mcp<2' 'openai<3' greenlet")
        return f". AgentScope {here} is installed; if this is written for AgentScope {other}: pip install {wanted}"
    return ""


def explain_missing_package(spec: str) -> str:
    """Return what to install for `module:Class` of one of our packages; empty for others and for installed ones."""
    package = re.split(r"[^\w]", spec.strip(), maxsplit=1)[0].replace("_", "-")
    if package not in read_known_packages().packages or is_installed(package):
        return ""
    return f" It comes with {package}: {install_command(package)}"


def install_command(requirement: str) -> str:
    """Return `pip install …`, quoted for a shell.

    Where core was installed from a clone that is still there, the other packages of the clone are installed from it too.
    """
    return install_from_index(_find_in_clone(requirement) or requirement)


def install_from_index(requirement: str) -> str:
    """Return `pip install …`, quoted for a shell, without a path of this machine: for files that travel."""
    return f"pip install {shlex.quote(requirement)}"


def _find_in_clone(requirement: str) -> str | None:
    """Return the folder of a package with the extras asked for; None without a clone, for a version and for others' packages."""
    found = re.fullmatch(r"([a-z-]+)(\[[^]]*\])?", requirement)
    clone = _find_clone()
    if found is None or clone is None:
        return None
    folder = clone / (CORE if found[1] == CORE else f"plugins/{found[1]}")
    if not (folder / "pyproject.toml").is_file():
        return None
    return str(folder) + (found[2] or "")


def _find_clone() -> Path | None:
    """Return the folder of the clone that core was installed from, which pip and uv write down (PEP 610)."""
    try:
        origin = json.loads(distribution(CORE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError, RecursionError):
        return None
    place = urlsplit(origin.get("url", ""))
    if "dir_info" not in origin or place.scheme != "file":
        return None
    clone = Path(unquote(place.path)).parent
    return clone if (clone / "plugins").is_dir() else None
