"""Imports of code that is written for other releases: older names are the same modules, and what is missing says what to do."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import pytest

import ajet
import astune
from ajet.utils.retry import retry_with_backoff
from ajet.utils.sington import singleton
from astuner_ajet.module_names import REMEDIES, AbsentModule, answer_imports, find_remedy


@pytest.mark.parametrize("module", ["workflow", "schema.task", "task_judge.base_judge", "utils.vsdb", "task_reader"])
def test_modules_of_the_older_name_are_the_same_ones(module):
    older = importlib.import_module(f"astune.{module}")
    assert older is importlib.import_module(f"ajet.{module}")
    assert older.__spec__.name == f"ajet.{module}"


def test_the_older_package_has_the_names_of_the_present_one():
    assert {name: getattr(astune, name) for name in ajet.__all__} == {name: getattr(ajet, name) for name in astune.__all__}
    assert astune.ModelTuner is ajet.AjetTuner


def test_the_older_name_comes_first_in_a_fresh_process():
    code = "from astune.schema.task import Task; import ajet.schema.task as present; assert Task is present.Task"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("import ajet.utils.cleaner", "`astuner stop`"),
        ("from ajet.task_reader import RouterTaskReader", "task_reader.type"),
        ("from ajet.task_reader.jsonl_reader import JsonlTaskReader", "task_reader.type"),
        ("from ajet.task_judge.rm_auto_grader_judge import AutoGraderJudge", "judge_type: rubrics_auto_grader"),
        ("from ajet.tuner_lib.experimental.swarm_client import SwarmClient", "Workflow.execute"),
        ("from astune.task_judge.rm_auto_grader_judge import AutoGraderJudge", "judge_type: rubrics_auto_grader"),
        ("import ajet.odds.and_ends", "AgentJet's own trainer"),
    ],
)
def test_what_is_missing_says_what_took_its_place(statement, remedy):
    with pytest.raises(ImportError, match="ajet") as raised:
        exec(statement, {})
    assert remedy in str(raised.value)


def test_a_private_name_of_a_module_is_an_attribute_error():
    assert not hasattr(importlib.import_module("ajet.task_reader"), "__wrapped__")


def test_no_remedy_is_for_a_module_that_is_there():
    specs = [importlib.util.find_spec(name) for name in REMEDIES if name not in ("ajet.schema", "ajet.task_judge")]
    there = [spec.name for spec in specs if spec is not None and not isinstance(spec.loader, AbsentModule)]
    assert set(there) == {"ajet.task_reader", "ajet.task_rollout"}, "only packages of which a part is there"


def test_the_closest_package_above_has_the_remedy():
    assert find_remedy("ajet.utils.launch_utils.start_ray_service") == REMEDIES["ajet.utils.launch_utils"]


def test_finders_are_installed_once():
    before = list(sys.meta_path)
    answer_imports()
    assert sys.meta_path == before


class Flaky:
    """Fails a number of times, and counts its calls."""

    def __init__(self, failures):
        self.failures, self.calls, self.tries = failures, 0, 2

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError(f"call {self.calls}")
        return self.calls

    __name__ = "flaky"


def test_a_call_is_repeated_until_it_works():
    assert retry_with_backoff(max_retry=3, backoff_fn=lambda attempt: 0.0)(Flaky(2))() == 3


@pytest.mark.parametrize(("tries", "failed"), [(1, "call 1"), (3, "call 3"), (0, "call 1")])
def test_the_last_failure_is_raised(tries, failed):
    with pytest.raises(ConnectionError, match=failed):
        retry_with_backoff(max_retry=tries, backoff_fn=lambda attempt: 0.0)(Flaky(9))()


def test_an_attribute_of_the_object_says_how_often():
    flaky = Flaky(9)
    with pytest.raises(ConnectionError, match="call 2"):
        retry_with_backoff(max_retry=7, backoff_fn=lambda attempt: 0.0, max_retry_attr="tries")(flaky)(flaky)


def test_a_singleton_is_made_once():
    @singleton
    class Counter:
        def __init__(self, start=0):
            self.start = start

    assert Counter(3) is Counter(5)
    assert Counter().start == 3
