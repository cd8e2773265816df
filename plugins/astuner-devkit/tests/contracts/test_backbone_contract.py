"""Each rule of the backbones' contract is broken by a backbone that does one thing wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.contracts import Contract, leftovers, list_rules
from astuner_devkit.contracts.backbone import BackboneContract
from astuner_devkit.project import write_project

BAD = [
    ("test_it_has_the_methods_of_a_backbone", "TakesTooLittle", "core calls evaluate(run, tasks, recipe, checkpoint, control)"),
    ("test_it_has_the_methods_of_a_backbone", "CannotExport", "has no method `export`"),
    ("test_it_has_a_name", "Nameless", "has no name"),
    ("test_it_has_a_name", "CapitalName", "the name 'Counting-2' does not match"),
    ("test_each_pattern_means_a_key", "UnknownKey", "'trainer_common.learning_rate' in honours means no key"),
    ("test_each_pattern_means_a_key", "UnknownKeyOfASection", "'rollout.multi_turn.max_stepps' in honours means no key"),
    ("test_each_pattern_means_a_key", "UnknownRefusal", "'rolout.*' in refuses means no key"),
    ("test_what_is_left_out_has_a_reason", "NoReason", "has the reason ''"),
    ("test_every_key_is_accounted_for", "Silent", "says nothing of trainer_common."),
    ("test_steps_count_up_from_1", "CountsFromZero", "the first step of the clock 'trainer' is 0"),
    ("test_steps_count_up_from_1", "ReportsTwice", "each is reported once, in order"),
    ("test_steps_count_up_from_1", "EndsEarly", "trained up to step 1, and the run has 4"),
    ("test_steps_count_up_from_1", "SaysNothing", "yielded no StepReport"),
    ("test_closing_in_the_middle_leaves_nothing_running", "LeavesAThread", "thread 'left-behind' still there"),
    ("test_closing_in_the_middle_leaves_nothing_running", "LeavesAProcess", "process"),
    ("test_closing_in_the_middle_leaves_nothing_running", "LeavesATask", "asyncio task 'left-behind' still there"),
    ("test_engines_are_closed", "LeavesItsEngine", "engine quiet #1 was never closed"),
    ("test_a_stop_is_obeyed_and_saved", "IgnoresStops", "stopped after step 1, it went on to step 4"),
    ("test_a_stop_is_obeyed_and_saved", "SavesNothingWhenStopped", "the last checkpoint is of step none"),
    ("test_a_resumed_run_goes_on", "StartsOver", "resumed from the checkpoint of step 1, it began with step [1]"),
    ("test_a_resumed_run_goes_on", "ForgetsTheRest", "resumed, it ended with step [2] of 4"),
    ("test_a_resumed_run_goes_on", "SavesNothingWhenStopped", "there is nothing to continue from"),
    ("test_checkpoints_lie_where_core_looks", "SavesElsewhere", "--resume looks for"),
    ("test_checkpoints_lie_where_core_looks", "SavesNothing", "nothing is there"),
    ("test_checkpoints_lie_where_core_looks", "NeverSavesTheLast", "after 4 steps the last checkpoint is of step none"),
    ("test_it_evaluates", "EvaluatesNothing", "yielded no ValidationReport"),
    ("test_it_evaluates", "TrainsWhenEvaluating", "reported training step [1]"),
    ("test_it_evaluates", "WordsForNumbers", "metrics are numbers"),
    ("test_closing_twice_is_harmless", "ClosesOnce", "called a second time, raised RuntimeError: already closed"),
]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run loads its backbone by the module's name; what the bad ones leave running ends with the test."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    import bad_backbones

    for process in bad_backbones.LeavesAProcess.processes:
        process.communicate(b"\n")
    bad_backbones.LeavesAProcess.processes.clear()
    for loop, task in bad_backbones.LeavesATask.loops:
        task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    bad_backbones.LeavesATask.loops.clear()


@pytest.mark.parametrize(("rule", "bad", "words"), BAD, ids=[f"{bad}-{rule}" for rule, bad, _ in BAD])
def test_a_bad_backbone_breaks_its_rule(
    outcome_of: Any, monkeypatch: pytest.MonkeyPatch, rule: str, bad: str, words: str
) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.2)
    outcome = outcome_of(BackboneContract, rule, component=f"bad_backbones:{bad}")
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome.message


def test_a_backbone_that_closes_its_engine_keeps_the_rule(outcome_of: Any):
    outcome = outcome_of(BackboneContract, "test_engines_are_closed", component="bad_backbones:ClosesItsEngine")
    assert outcome.status == "passed", outcome.message


def test_a_backbone_that_only_plays_obeys_a_stop_too(outcome_of: Any):
    rule = "test_a_stop_is_obeyed_and_saved"
    outcome = outcome_of(BackboneContract, rule, component="bad_backbones:PlaysOnAfterAStop", trains=False)
    assert (outcome.status, "though a stop had been asked for" in outcome.message) == ("failed", True), outcome.message


def test_a_run_too_short_to_be_stopped_is_refused(outcome_of: Any):
    def conf(self: BackboneContract, directory: Path) -> Path:
        short = {"data": {"train_batch_size": 1}, "trainer_common": {"total_training_steps": 2}}
        return write_project(directory, backbone="bad_backbones:Counting", settings=short)

    outcome = outcome_of(BackboneContract, "test_a_stop_is_obeyed_and_saved", component="bad_backbones:Counting", conf=conf)
    assert (outcome.status, "give it at least 3" in outcome.message) == ("failed", True), outcome.message


def test_a_configuration_of_another_backbone_is_refused(outcome_of: Any):
    author = {"component": "bad_backbones:Counting", "conf": lambda self, directory: write_project(directory)}
    outcome = outcome_of(BackboneContract, "test_steps_count_up_from_1", **author)
    assert (outcome.status, "name this one" in outcome.message) == ("failed", True), outcome.message


def test_every_rule_is_broken_by_a_bad_backbone():
    assert {rule for rule, *_ in BAD} == set(list_rules(BackboneContract)) - set(list_rules(Contract))


def test_a_pattern_may_mean_an_option_of_a_component(outcome_of: Any):
    outcome = outcome_of(BackboneContract, "test_each_pattern_means_a_key", component="bad_backbones:OptionOfAnEngine")
    assert outcome.status == "passed", outcome.message


class TestCounting(BackboneContract):
    component = "bad_backbones:Counting"


class TestDebug(BackboneContract):
    component = "astuner.episodes.builtin.debug.debug_backbone:DebugBackbone"
    trains = False

    def conf(self, directory: Path) -> Path:
        return write_project(
            directory, settings={"task_reader": {"dataset_file": {"validation": {"file_path": "project.jsonl"}}}}
        )
