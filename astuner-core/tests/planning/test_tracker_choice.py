"""What is refused, and what is said, of the tracker and its keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.contract.errors import ConfigError
from astuner.settings.planning.plan import Plan, plan_run
from astuner_devkit.project import write_project

TEXT = {"timeline_merging_policy": {"timeline_compare_level": "text"}}
Planned = Callable[..., Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    def plan(section: dict[str, Any], backbone: str | None = None, **more: Any) -> Plan:
        conf = write_project(tmp_path, settings={"context_tracker": section, "rollout": {"num_repeat": 2}})
        return plan_run(conf, (), backbone, **more)

    return plan


def join_notices(plan: Plan) -> str:
    return "\n".join(plan.notices)


def test_text_is_refused_for_training_with_its_place(planned: Planned, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(TEXT, backbone="acme")
    [problem] = [one for one in caught.value.problems if "timeline_compare_level" in (one.key or "")]
    assert problem.key == "astuner.context_tracker.timeline_merging_policy.timeline_compare_level"
    assert problem.file == tmp_path / "project.yaml"
    line = (problem.file.read_text().splitlines())[(problem.line or 0) - 1]
    assert yaml.safe_load(line) == {"timeline_compare_level": "text"}
    assert "force_inexact: true" in problem.message


@pytest.mark.parametrize(
    ("section", "more"),
    [
        ({"timeline_merging_policy": {"timeline_compare_level": "text", "force_inexact": True}}, {}),
        (TEXT, {"trains": False}),
        ({**TEXT, "context_tracker_type": "linear"}, {}),
    ],
    ids=["forced", "evaluation", "another tracker"],
)
def test_text_is_not_refused_where_nothing_inexact_is_trained_unasked(planned: Planned, section: Any, more: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(section, backbone="acme", **more)
    assert [one.key for one in caught.value.problems] == ["astuner.backbone"]


def test_text_is_named_as_inexact(planned: Planned) -> None:
    assert "timeline_compare_level: 'text' is inexact" in join_notices(planned(TEXT))
    assert "inexact" not in join_notices(planned({}))


def test_drift_cannot_be_left_in(planned: Planned) -> None:
    with pytest.raises(ConfigError, match=r"fix_retokenization_drift.*a sampled token is never encoded again"):
        planned({"fix_retokenization_drift": False})
    planned({"fix_retokenization_drift": True})


def test_checks_of_tool_formats_point_to_the_detector(planned: Planned) -> None:
    assert "log_tool_format_check has no effect with the backbone 'debug': malformed tool calls" in join_notices(
        planned({"log_tool_format_check": True})
    )


def test_keys_that_mean_nothing_here_are_named(planned: Planned) -> None:
    found = join_notices(
        planned({"context_tracker_type": "linear", "detect_timeline_snap": True, "alien_llm_model": "m", "max_env_len": 9})
    )
    assert "context_tracker.detect_timeline_snap has no effect: the tracker 'linear' merges nothing." in found
    assert "context_tracker.alien_llm_model has no effect: nothing is summarised." in found
    assert "context_tracker.max_env_len has no effect: a workflow plays the environment, and cuts what it likes." in found


def test_keys_that_hold_the_default_are_not_remarked_on(planned: Planned) -> None:
    assert "no effect" not in join_notices(planned({"alien_llm_response_length": 512, "max_env_len": 4096}))


@pytest.mark.parametrize("name", ["sliding_window", "auto_context", "linear_think", "auto_context_cm"])
def test_a_tracker_of_the_conversation_says_that_a_workflow_decides(planned: Planned, name: str) -> None:
    assert f"with a workflow, '{name.removesuffix('_cm')}' only reads samples" in join_notices(
        planned({"context_tracker_type": name})
    )


def test_older_yaml_is_read(planned: Planned) -> None:
    sections = {
        "auto_context_cm": {"train_sp_action": False, "token_num_trigger_clip": 8000},
        "sliding_window_cm": {"enable_llm_memory_extraction": False},
        "linear_think_cm": {
            "remove_think_before_submit_as_action": False,
            "extract_box_before_submit_as_action": False,
            "train_history_infer_token": True,
        },
    }
    for name in sections:
        chosen = planned({"context_tracker_type": name, **sections}).recipe.tracker
        assert chosen.candidate.name == name.removesuffix("_cm")
        assert chosen.options is not None
