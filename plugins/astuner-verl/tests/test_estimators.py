"""A model that an estimator names and that cannot score is refused before a cluster is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from made_up_groups import Control

from astuner.contract.errors import ConfigError
from astuner.settings.planning.plan import plan_run
from astuner_devkit.project import write_tokenizer
from astuner_verl import learner

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")

CONF = """
astuner:
  backbone: verl
  model: {path: ./model}
  rollout: {user_workflow: 'astuner_devkit.workflows:OneTurn'}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  task_judge: {judge_type: customized_protocol, judge_protocol: 'astuner_devkit.judges:ExactAnswer'}
  trainer_common: {algorithm: {adv_estimator: opd}}
"""


class Started(Exception):
    """A cluster would be started."""


@pytest.fixture
def open_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def attach(*_: Any) -> None:
        raise Started

    monkeypatch.setattr(learner, "attach", attach)
    make_model(tmp_path / "model")
    (tmp_path / "run.yaml").write_text(CONF)
    (tmp_path / "tasks.jsonl").write_text("{}")
    control: Any = Control()

    def open_it(teacher: str) -> None:
        settings = (f"trainer_common.algorithm.opd.teacher={teacher}",)
        planned = plan_run(tmp_path / "run.yaml", settings, "verl")
        with learner.open_learner(planned.run_info(), planned.recipe, control, checkpoint=None, total_steps=1):
            pass

    return open_it


def make_model(home: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    write_tokenizer(home)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    Qwen2ForCausalLM(Qwen2Config(vocab_size=300, **sizes)).save_pretrained(home)


@pytest.mark.parametrize("teacher", ["reference", "teacher"])
def test_a_model_of_the_same_family_is_taken(open_planned: Callable[[str], None], tmp_path: Path, teacher: str) -> None:
    make_model(tmp_path / "teacher")
    with pytest.raises(Started):
        open_planned(teacher if teacher == "reference" else str(tmp_path / teacher))


def test_one_with_another_tokenizer_is_refused(open_planned: Callable[[str], None], tmp_path: Path) -> None:
    make_model(tmp_path / "teacher")
    path = tmp_path / "teacher" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": 9999, "content": "<|other|>"})
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(ConfigError, match=r"algorithm.opd: .*/teacher has another tokenizer than .*, such as for '<\|other\|>'"):
        open_planned(str(tmp_path / "teacher"))


def test_adapters_are_refused(open_planned: Callable[[str], None], tmp_path: Path) -> None:
    make_model(tmp_path / "teacher")
    (tmp_path / "teacher" / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base", "r": 4}))
    with pytest.raises(ConfigError, match=r"algorithm.opd: .* holds LoRA adapters of org/base, and scoring with"):
        open_planned(str(tmp_path / "teacher"))


def test_one_that_is_nowhere_is_refused(open_planned: Callable[[str], None]) -> None:
    with pytest.raises(ConfigError, match=r"algorithm.opd: .*nowhere"):
        open_planned("./nowhere")
