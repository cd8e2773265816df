"""What an agent or a judge leaves changed for the whole process changes nothing of what is learned."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from harness import SMALL
from python_server import PythonServer
from runs_on_disk import metric_rows, weights_digest
from supervised_run import Supervisor

STEPS = 2
SETTINGS = (
    *SMALL,
    f"--set=trainer_common.total_training_steps={STEPS}",
    "--set=data.train_batch_size=2",
    "--set=rollout.user_workflow=./careless_agent.py:CarelessAgent",
    "--set=task_judge.judge_protocol=./careless_agent.py:CarelessJudge",
)
DEEDS = (
    "seed_everything",
    "change_arithmetic",
    "change_threads",
    "turn_gradients_off",
    "change_device",
    "open_contexts",
    "change_process",
    "replace_streams",
    "take_signals",
)
CASES = [*(("AGENT", deed) for deed in DEEDS), *(("JUDGE", deed) for deed in ("change_arithmetic", "open_contexts"))]


def copy_project(quickstart: Path, home: Path) -> Path:
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    shutil.copy(Path(__file__).with_name("careless_agent.py"), home)
    return home


@pytest.fixture(scope="module")
def undisturbed(quickstart: Path, python_server: PythonServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a run whose agent leaves everything as it was."""
    supervisor = Supervisor(python_server, copy_project(quickstart, tmp_path_factory.mktemp("undisturbed") / "project"))
    ended = supervisor.run(*SETTINGS)
    assert ended.code == 0, ended.said
    return supervisor.directory


@pytest.mark.parametrize(("who", "deed"), CASES)
def test_what_users_code_leaves_changed_changes_nothing_of_what_is_learned(
    quickstart: Path, python_server: PythonServer, undisturbed: Path, tmp_path: Path, who: str, deed: str
) -> None:
    supervisor = Supervisor(python_server, copy_project(quickstart, tmp_path / "project"))
    ended = supervisor.run(*SETTINGS, env={f"CARELESS_{who}": deed})
    assert ended.code == 0, ended.said[-4000:]
    assert not re.search("^Traceback", ended.said, re.MULTILINE), ended.said[-4000:]
    assert metric_rows(supervisor.directory) == metric_rows(undisturbed)
    assert weights_digest(supervisor.directory, STEPS) == weights_digest(undisturbed, STEPS)
