"""Real distributions made in a millisecond, on disk or as a wheel, for tests of plugin discovery."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EntryPoints = Mapping[str, Mapping[str, str]]

EMPTY: Mapping[str, Any] = {}


def write_distribution(
    directory: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] = EMPTY,
    entry_points: EntryPoints = EMPTY,
    requires: Sequence[str] = (),
    metadata: Mapping[str, str] = EMPTY,
) -> Path:
    """Lay out an installed distribution in `directory`, as `pip install --target` would, and return the directory for `sys.path`.

    `files` are source texts by path (`acme/judges.py`); packages get an empty `__init__.py` if none is given. `entry_points`
    are targets by name by group. Extras are those that the markers of `requires` name. `metadata` has further fields,
    as `Summary`.
    """
    info = _info_directory(name, version)
    texts = {
        **_texts(name, version, files, entry_points, _metadata(name, version, requires, metadata)),
        f"{info}/INSTALLER": "astuner_devkit\n",
    }
    texts[f"{info}/RECORD"] = _record(texts, f"{info}/RECORD")
    for path, text in texts.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
    return directory


def write_wheel(
    directory: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] = EMPTY,
    entry_points: EntryPoints = EMPTY,
    requires: Sequence[str] = (),
    metadata: Mapping[str, str] = EMPTY,
) -> Path:
    """Write the wheel of such a distribution into `directory`, and return the file for `pip install`."""
    info = _info_directory(name, version)
    texts = _texts(name, version, files, entry_points, _metadata(name, version, requires, metadata))
    texts[f"{info}/RECORD"] = _record(texts, f"{info}/RECORD")
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"{info.removesuffix('.dist-info')}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in texts.items():
            # Made by hand without a timestamp, so that the same content gives the same file.
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text.encode())
    return wheel


def _texts(name: str, version: str, files: Mapping[str, str], entry_points: EntryPoints, metadata: str) -> dict[str, str]:
    """Return what an installed distribution and a wheel have in common, by path."""
    texts = dict(files)
    for path in files:
        for parent in Path(path).parents:
            if parent.parts and path.endswith(".py"):
                texts.setdefault(f"{parent.as_posix()}/__init__.py", "")
    info = _info_directory(name, version)
    texts[f"{info}/METADATA"] = metadata
    texts[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: astuner_devkit\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts[f"{info}/entry_points.txt"] = "\n".join(
        "\n".join([f"[{group}]", *(f"{entry} = {target}" for entry, target in targets.items()), ""])
        for group, targets in entry_points.items()
    )
    return texts


def _info_directory(name: str, version: str) -> str:
    return f"{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"


def _metadata(name: str, version: str, requires: Sequence[str], further: Mapping[str, str]) -> str:
    extras = dict.fromkeys(re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", "\n".join(requires)))
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"{key}: {value}" for key, value in further.items()]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    return "\n".join(lines) + "\n"


def _record(texts: Mapping[str, str], own_path: str) -> str:
    """Return `RECORD`: path, hash and size of every file, but only the path of itself."""
    rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in texts.items()]
    return "".join(f"{row}\n" for row in [*rows, f"{own_path},,"])


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
