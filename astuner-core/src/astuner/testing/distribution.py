"""Real distributions on disk, made in a millisecond: for tests of whatever finds plugins through their metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_distribution(
    directory: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    entry_points: Mapping[str, Mapping[str, str]],
    requires: Sequence[str] = (),
) -> Path:
    """Lay out an installed distribution in `directory`, as `pip install --target` would, and return the directory for `sys.path`.

    `files` are source texts by path (`acme/judges.py`); packages get an empty `__init__.py` where none is given. `entry_points`
    are targets by name by group. Extras are those that the markers of `requires` name.
    """
    texts = dict(files)
    for path in files:
        for parent in Path(path).parents:
            if parent.parts and path.endswith(".py"):
                texts.setdefault(f"{parent.as_posix()}/__init__.py", "")
    info = f"{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"
    texts[f"{info}/METADATA"] = _metadata(name, version, requires)
    texts[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: astuner.testing\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts[f"{info}/INSTALLER"] = "astuner.testing\n"
    texts[f"{info}/entry_points.txt"] = "\n".join(
        "\n".join([f"[{group}]", *(f"{entry} = {target}" for entry, target in targets.items()), ""])
        for group, targets in entry_points.items()
    )
    texts[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*texts, f"{info}/RECORD"))
    for path, text in texts.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return directory


def _metadata(name: str, version: str, requires: Sequence[str]) -> str:
    extras = dict.fromkeys(re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", "\n".join(requires)))
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    return "\n".join(lines) + "\n"
