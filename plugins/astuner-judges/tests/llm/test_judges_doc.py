"""What docs/judges.md shows is what the judges take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.settings.config.loading import load_config
from astuner.settings.plugins.options import build_options
from astuner.shared.clients.prompts import load_user_prompt
from astuner_devkit import PlayedRun
from astuner_judges import MathAnswerAsJudge
from astuner_judges.llm.judge import LlmAsJudge
from astuner_judges.llm.math_and_llm import MathAnswerAndLlmAsJudge
from astuner_judges.llm.questions import BEGINNING, TASK_SLOTS, WORK_SLOTS

PAGE = Path(__file__).parents[4] / "docs" / "judges.md"
TEXT = PAGE.read_text(encoding="utf-8")
JUDGES: Mapping[str, Any] = {"math": MathAnswerAsJudge, "llm": LlmAsJudge, "math_and_llm": MathAnswerAndLlmAsJudge}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_every_yaml_is_one_that_the_judge_takes(block: str, tmp_path: Path) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(block, encoding="utf-8")
    section = load_config(conf, ["model.path=m", "rollout.user_workflow=a:B"]).config.task_judge
    if section.judge_type == "customized_protocol":
        assert section.judge_protocol
        return
    made = build_options(JUDGES[section.judge_type], section.get_options(section.judge_type), key="task_judge")
    assert made != JUDGES[section.judge_type].Options() or section.judge_type == "math"


def test_the_prompt_can_be_filled(tmp_path: Path) -> None:
    (text,) = blocks("text")
    file = tmp_path / "prompt.txt"
    file.write_text(text)
    prompt = load_user_prompt(file, "prompt_file", required=("answer",), known=(*TASK_SLOTS, "answer", "min_score", "max_score"))
    assert "wrote" not in prompt.fill(dict.fromkeys(prompt.slots, ""))


MORE_SLOTS = {"pointwise": ("min_score", "max_score"), "relative": (BEGINNING,)}


def test_the_slots_are_those_of_the_modes() -> None:
    for mode, slots in WORK_SLOTS.items():
        (row,) = re.findall(rf"^\| `{mode}` \| (.*) \| (.*) \|$", TEXT, re.MULTILINE)
        assert tuple(re.findall(r"`(\w+)`", row[0])) == slots
        others = (*TASK_SLOTS, *MORE_SLOTS.get(mode, ()))
        assert tuple(re.findall(r"`(\w+)`", row[1])) == others


def test_the_class_of_one_s_own_judges_a_run(run: Callable[..., PlayedRun], tmp_path: Path) -> None:
    (code,) = blocks("python")
    (tmp_path / "exact.py").write_text(code)
    played = run("./exact.py:ExactAnswer", replies=["4 "])
    assert played.rewards == [1.0]
    assert [episode.is_success for episode in played.episodes] == [True]
