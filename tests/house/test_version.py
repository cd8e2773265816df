"""All packages share one version, and every place that repeats it agrees."""

from __future__ import annotations

import runpy
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from harness import REPOSITORY

FILE = REPOSITORY / "scripts" / "set_version.py"
SCRIPT: dict[str, Any] = runpy.run_path(str(FILE))


def test_all_packages_have_one_version() -> None:
    read = [tomllib.loads(path.read_text(encoding="utf-8"))["project"]["version"] for path in SCRIPT["projects"]()]
    assert len(read) > 20
    assert {*read} == {SCRIPT["read_version"]()}


def test_every_place_that_repeats_the_version_agrees() -> None:
    assert list(SCRIPT["list_differences"](SCRIPT["read_version"]())) == [], "run scripts/set_version.py"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ('"astuner-core[rollout]>=0.4,<0.5",', '"astuner-core[rollout]>=3.7,<3.8",'),
        ('"astuner-tools==0.4.1"', '"astuner-tools==3.7.2"'),
        ("astuner-core==0.4.*", "astuner-core==3.7.*"),
        ("astuner_core-0.4.1-py3-none-any.whl", "astuner_core-3.7.2-py3-none-any.whl"),
        ("astuner-0.4.1.dist-info", "astuner-3.7.2.dist-info"),
        ("from astuner-judges 0.4.1rc1 (", "from astuner-judges 3.7.2 ("),
        ('{"astuner-core": "0.4.1"}', '{"astuner-core": "3.7.2"}'),
        ("| `astuner` 0.4.1 |", "| `astuner` 3.7.2 |"),
    ],
)
def test_a_version_is_found_next_to_a_name(text: str, becomes: str) -> None:
    assert SCRIPT["rewrite"](text, "3.7.2") == becomes


@pytest.mark.parametrize(
    "text",
    [
        "acme-strict 0.4.1",
        "verl>=0.9,<0.10",
        "astuner-cached-judge 0.4.1",
        "astuner-vllm 0.0.1",
        "astuner-core>=9",
        "my-astuner 0.4.1",
    ],
)
def test_versions_of_others_stay(text: str) -> None:
    assert SCRIPT["rewrite"](text, "3.7.2") == text


def test_something_that_is_not_a_version_is_refused() -> None:
    done = subprocess.run([sys.executable, str(FILE), "0.3"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "set_version: '0.3' is not a version such as 0.3.0 or 0.3.0rc1\n")
