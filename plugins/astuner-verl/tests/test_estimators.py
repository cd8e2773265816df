"""An estimator that needs what no learner here has is refused before a cluster is started."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from made_up_groups import Control

from astuner.contract.errors import ConfigError
from astuner.settings.planning.plan import plan_run
from astuner_verl import learner

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")

CONF = """
astuner:
  backbone: verl
  model: {path: org/model}
  rollout: {user_workflow: 'astuner_devkit.workflows:OneTurn'}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  task_judge: {judge_type: customized_protocol, judge_protocol: 'astuner_devkit.judges:ExactAnswer'}
  trainer_common: {algorithm: {adv_estimator: opd, opd: {teacher: org/teacher}}}
"""


@pytest.fixture
def open_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def attach(*_: Any) -> None:
        raise AssertionError("a cluster is started")

    monkeypatch.setattr(learner, "attach", attach)
    (tmp_path / "run.yaml").write_text(CONF)
    (tmp_path / "tasks.jsonl").write_text("{}")
    planned = plan_run(tmp_path / "run.yaml", (), "verl")
    control: Any = Control()

    def open_it() -> None:
        with learner.open_learner(planned.run_info(), planned.recipe, control, checkpoint=None, total_steps=1):
            pass

    return open_it


def test_a_teacher_is_refused_by_name(open_planned: Callable[[], None]) -> None:
    with pytest.raises(ConfigError, match="'opd' needs more than advantages, and the backbone 'verl' scores with no other model"):
        open_planned()
