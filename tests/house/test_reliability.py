"""The page of faults names tests that exist, for every fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astuner.model.http_server import LARGE_BODY, ServerLimits
from astuner.model.http_server.connections import CHUNK_BYTES, FIELD_BYTES, SLOWEST_BYTES
from astuner.model.rendering.bounded_templates import LONGEST, LONGEST_SOURCE, MOST_WORK
from astuner.settings.config.interpolation_bounds import MOST_CHARACTERS, MOST_REFERENCES
from astuner.settings.config.redaction import REDACTED
from astuner.settings.config.yaml_bounds import DEEPEST, MOST_COPIES
from astuner.shared.clients.foreign_answers import MOST_BYTES

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:astuner-core|plugins|tests)/[\w./-]+\.py)`", PAGE)))
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.count("|") == 4 and not line.startswith(("|-", "|---"))]

SERVER = ServerLimits()
STATED = [
    f"{DEEPEST} levels, {MOST_COPIES:,} aliased values; a value refers to at most {MOST_REFERENCES:,} others",
    f"at most {MOST_CHARACTERS >> 20} Mi characters",
    f"{MOST_WORK // 10**6} million expressions",
    f"{LONGEST >> 20} Mi characters or values in what it makes, {LONGEST_SOURCE >> 20} Mi characters of source",
    f"read up to {MOST_BYTES >> 20} MiB",
    f"Bodies over {LARGE_BODY >> 10} KiB are read in threads",
    f"Headers have {SERVER.max_header_bytes >> 10} KiB, each counting {FIELD_BYTES} bytes more than its text, and "
    f"{SERVER.headers_timeout_s:.0f} s",
    f"some {SERVER.max_header_bytes // CHUNK_BYTES // 1000},000 chunks",
    f"Bodies have {SERVER.body_timeout_s:.0f} s, and one more for each {SLOWEST_BYTES >> 10} KiB",
    f"At most {SERVER.max_waiting} requests of a connection wait",
    f"are replaced by `{REDACTED}`",
    f"reads less than {SLOWEST_BYTES >> 10} KiB/s of its answer for {SERVER.unread_timeout_s:.0f} s",
]


@pytest.mark.parametrize("path", PATHS)
def test_every_file_that_is_named_has_tests(path: str) -> None:
    assert "def test_" in (REPOSITORY / path).read_text(encoding="utf-8")


def test_every_fault_names_a_file_of_tests() -> None:
    faults = [row for row in ROWS if row[2].strip() != "tests"]
    assert len(faults) > 20
    assert [row[0] for row in faults if ".py`" not in row[2]] == []


def test_security_names_the_tests_of_leaks() -> None:
    page = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
    paths = re.findall(r"`(plugins/[\w./-]+\.py)`", page)
    assert "plugins/astuner-loggers/tests/test_leaks.py" in paths
    assert [path for path in paths if not (REPOSITORY / path).is_file()] == []


@pytest.mark.parametrize("text", STATED)
def test_security_has_the_values_of_the_code(text: str) -> None:
    assert text in " ".join((REPOSITORY / "SECURITY.md").read_text(encoding="utf-8").split())


def test_no_text_is_evaluated_as_code() -> None:
    """Of a script that a user imports, what stands between `$((` and `))` is computed."""
    sources = [*REPOSITORY.glob("astuner-core/src/**/*.py"), *REPOSITORY.glob("plugins/*/src/**/*.py")]
    calls = {path.name: re.findall(r"(?<![\w.])(?:eval|exec)\(", path.read_text(encoding="utf-8")) for path in sources}
    assert [name for name, found in calls.items() if found] == ["shell_script.py"]
