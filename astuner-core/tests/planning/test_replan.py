from __future__ import annotations

import stat

import pytest
from attrs import evolve

from astuner.contract.errors import RunFailed
from astuner.settings.planning.plan import plan_run
from astuner.settings.planning.replan import replan, write_plan
from astuner_devkit.project import write_project


@pytest.fixture
def written(tmp_path):
    """A run that was planned with an override, and the file that another process plans it again from."""
    conf = write_project(tmp_path)
    info = evolve(plan_run(conf, ["seed=7"]).run_info(attempt=3), directory=tmp_path / "elsewhere")
    write_plan(info, tmp_path / "plans" / "plan.json", steps=[1, 2])
    return conf, info, tmp_path / "plans" / "plan.json"


def test_another_process_plans_the_same_run(written, monkeypatch, tmp_path):
    _, info, path = written
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    again = replan(path)
    assert again.facts == {"steps": [1, 2]}
    found = again.run_info
    assert (found.seed, found.directory, found.attempt, found.backbone) == (7, info.directory, 3, info.backbone)
    assert evolve(found.config, experiment_dir="") == evolve(info.config, experiment_dir="")


def test_what_may_hold_secrets_is_for_its_owner_alone(written):
    _, _, path = written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_yaml_that_was_changed_or_is_gone_is_refused(written):
    conf, _, path = written
    conf.write_text(conf.read_text() + "\n# a thought\n")
    with pytest.raises(RunFailed, match="was changed after the run started"):
        replan(path)
    conf.unlink()
    with pytest.raises(RunFailed, match="is not on this machine"):
        replan(path)
