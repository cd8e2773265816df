"""Which changes make CI run the long suites of the engines."""

from __future__ import annotations

import importlib.util
import subprocess
import tomllib

import pytest
from harness import REPOSITORY

CI = REPOSITORY / ".ci"
spec = importlib.util.spec_from_file_location("engines", CI / "engines.py")
assert spec
assert spec.loader
engines = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engines)

RULE = tomllib.loads((CI / "engines.toml").read_text(encoding="utf-8"))

SOURCE = '''
"""A module."""

def advance(state):  # by one
    """Return the next state."""
    return state + 1

class State:
    count: int
    """How often it was advanced."""
'''


@pytest.mark.parametrize("engine", RULE["engines"])
def test_every_line_of_the_rule_names_files(engine: str):
    for line in RULE["reach"]:
        path = line.removeprefix(":!").replace("{engine}", engine)
        # vLLM has no tests that need another package.
        if path != "tests/vllm":
            assert subprocess.check_output(["git", "ls-files", "--", path], cwd=REPOSITORY), line


def test_words_do_not_reach_an_engine_and_code_does():
    reworded = SOURCE.replace("Return the next state.", "Advance.").replace("by one", "once").replace("How often", "Times")
    assert engines.strip_words(reworded) == engines.strip_words(SOURCE)
    assert engines.strip_words(SOURCE.replace("+ 1", "+ 2")) != engines.strip_words(SOURCE)


def test_engines_differ_in_what_reaches_them():
    assert len({engines.digest(engine, RULE["reach"]) for engine in RULE["engines"]}) == len(RULE["engines"])


def test_a_recorded_engine_is_one_that_there_is():
    assert set(engines.read_passed()) <= set(RULE["engines"])
    assert engines.main(["record", "nonsense"]) == 2
