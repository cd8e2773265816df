"""Sets the version that all packages share, wherever it is written, and their requirements of each other.

    python scripts/set_version.py 0.3.0      writes it into every tracked file but the changelog and what was measured
    python scripts/set_version.py --check    names each place with another version, and exits with 1 if there is one

A version is found next to the name of one of our packages, as in `astuner-core>=0.2,<0.3`, `astuner-core 0.2.0` or
`astuner_core-0.2.0`. Run `python scripts/write_sboms.py` afterwards, and install the packages again.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HISTORY = re.compile(r"tests/house/test_version\.py|CHANGELOG\.md|findings/.*|benchmarks/.*(?<!\.py)|plugins/directory\.toml")
"""What was true of the version that it names stays, and so do the versions that a test makes up."""
RELEASE = r"(?:(?:a|b|rc)\d+)?"
VERSION = re.compile(rf"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*){RELEASE}")


def projects() -> list[Path]:
    """Return the `pyproject.toml` of every package."""
    return [ROOT / "astuner-core" / "pyproject.toml", *sorted((ROOT / "plugins").glob("*/pyproject.toml"))]


def read_version() -> str:
    """Return the version of core, which is that of all packages."""
    return str(_read(projects()[0])["version"])


@cache
def _read(project: Path) -> dict[str, object]:
    return dict(tomllib.loads(project.read_text(encoding="utf-8"))["project"])


@cache
def _forms() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return how a range, an exact requirement and a version are written next to a name; each ends with its numbers."""
    names = "|".join(sorted((str(_read(path)["name"]).replace("-", "[-_]") for path in projects()), key=len, reverse=True))
    name = rf"(?<![\w-])(?:{names})"
    extras = r"(?:\[[\w,-]*\])?"
    # Versions below 0.1 are made up by tests.
    number = r"(?!0\.0\b)\d+\.\d+"
    span = re.compile(rf"((?:{name}{extras}|CORE\}}|core_requirement\": \"|as in `)>=){number},<\d+\.\d+(?![\w.])")
    exact = re.compile(rf"({name}{extras}(?:==|~=)){number}\.(?:\d+{RELEASE}|\*)")
    plain = re.compile(rf"({name}(?:`? |-|\", \"|\": \")){number}\.\d+{RELEASE}(?!\.?\d)")
    return span, exact, plain


def rewrite(text: str, version: str) -> str:
    """Return a text with this version in every place that names one of our packages with a version."""
    major, minor, *_ = version.split(".")
    span, exact, plain = _forms()
    text = span.sub(rf"\g<1>{major}.{minor},<{major}.{int(minor) + 1}", text)
    text = exact.sub(lambda at: at[1] + (f"{major}.{minor}.*" if at[0].endswith("*") else version), text)
    return plain.sub(rf"\g<1>{version}", text)


def list_files() -> Iterator[Path]:
    """Yield every tracked text file that is not history."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in (ROOT / name for name in listed.splitlines() if not HISTORY.fullmatch(name)):
        if path.is_file() and not path.is_symlink():
            yield path


def list_changes(version: str) -> Iterator[tuple[Path, str]]:
    """Yield each file that names another version, with the text that it should have."""
    own = {**dict.fromkeys(projects(), r'^version = ".*"$'), ROOT / "CITATION.cff": "^version: .*$"}
    for path in list_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        changed = rewrite(text, version)
        if path in own:
            written = f"version: {version}" if path.suffix == ".cff" else f'version = "{version}"'
            changed = re.sub(own[path], written, changed, count=1, flags=re.MULTILINE)
        if changed != text:
            yield path, changed


def list_differences(version: str) -> Iterator[str]:
    """Yield each line that names another version, with its place and what it should be."""
    for path, changed in list_changes(version):
        lines = zip(path.read_text(encoding="utf-8").splitlines(), changed.splitlines(), strict=True)
        for number, (line, wanted) in enumerate(lines, start=1):
            if line != wanted:
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}\n    should be: {wanted.strip()}"


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    match arguments:
        case ["--check"]:
            differences = list(list_differences(read_version()))
            print(*differences, sep="\n", file=sys.stderr, end="\n" if differences else "")
            return 1 if differences else 0
        case [version] if VERSION.fullmatch(version):
            changes = list(list_changes(version))
            for path, changed in changes:
                path.write_text(changed, encoding="utf-8")
            print(f"{version}: {len(changes)} files; now run python scripts/write_sboms.py", file=sys.stderr)
            return 0
        case [version] if not version.startswith("-"):
            print(f"set_version: {version!r} is not a version such as 0.3.0 or 0.3.0rc1", file=sys.stderr)
            return 2
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
