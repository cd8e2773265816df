"""The installer: uv, as a program. It resolves in seconds what takes pip minutes, and accepts overrides."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from astuner.contract.errors import RunFailed, UsageError
from astuner.shared.install_hints import install_command

PIP_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip, and the variables by which uv takes the same."""
PIP_FILES = ("global.", "install.", "site.", "user.")
OWN_SETTINGS = frozenset({*PIP_SETTINGS.values(), "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_CONFIG_FILE"}) - {"SSL_CERT_FILE"}


def find_uv() -> str:
    """Return the program, that of this environment first; raises `UsageError` if there is none."""
    here = Path(sysconfig.get_path("scripts"), "uv")
    found = str(here) if here.is_file() else shutil.which("uv")
    if found is None:
        raise UsageError(f"uv makes the environment, and is neither installed here nor on PATH: {install_command('uv')}")
    return found


def run_uv(*arguments: str | Path) -> None:
    """Run uv in front of the user; raises `RunFailed` if it fails."""
    if status := subprocess.run([find_uv(), *map(str, arguments)], env=_make_environment(), check=False).returncode:
        raise RunFailed(f"uv {' '.join(map(str, arguments[:2]))} failed with status {status}; the reason is above")


def resolve(requirements: Path, out: Path, python: str | Path, options: Sequence[str | Path]) -> None:
    """Write a version of every package that some requirements bring; raises `UsageError` with uv's reason if there are none.

    Hashes of files come with them: those that `out` has for the same version, so that no other file is installed for a lock's.
    """
    command = [find_uv(), "pip", "compile", requirements, "--output-file", out, "--python", python, "--quiet"]
    command += ["--no-header", "--no-annotate", "--generate-hashes", *options]
    done = subprocess.run(list(map(str, command)), env=_make_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"no set of versions meets all requirements. uv says:\n{done.stderr.strip()}")


def _make_environment() -> dict[str, str]:
    """Return this process's variables, with pip's indexes where uv has no settings of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME")}
    if not any(name in environment for name in OWN_SETTINGS):
        environment = {**{PIP_SETTINGS[name]: value for name, value in read_pip_settings().items()}, **environment}
        # pip takes the best version of all indexes; uv by default those of the first index that has the package.
        environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return environment


def read_pip_settings() -> Mapping[str, str]:
    """Return where pip looks for packages, in uv's spelling: from its variables, which win, and its files."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.partition("=") for line in done.stdout.splitlines()]
    # Lines like `global.find-links='/wheels'`. An environment without pip has no output.
    found = {key.rpartition(".")[2]: str(ast.literal_eval(value)) for key, _, value in lines if key.startswith(PIP_FILES)}
    for name in PIP_SETTINGS:
        if (value := os.environ.get(f"PIP_{name.upper().replace('-', '_')}")) is not None:
            found[name] = value
    separators = {"find-links": ","}
    return {name: separators.get(name, " ").join(value.split()) for name, value in found.items() if name in PIP_SETTINGS}
