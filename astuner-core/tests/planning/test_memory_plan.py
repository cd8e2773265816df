"""The plan of memory of a run: gathered per GPU, shown, and held against the machine before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planned_project import SHAPE, give_gpus, write_planned_project

from astuner.cli import exit_code_of
from astuner.contract.errors import ConfigError
from astuner.settings.memory_estimate.parts import Hardware
from astuner.settings.planning.memory_plan import look_at_hardware
from astuner.settings.planning.plan import plan_run


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_planned_project(tmp_path)


def test_a_plan_that_does_not_fit_is_refused_unless_the_user_insists(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_gpus(monkeypatch, 2, 6)
    with pytest.raises(ConfigError, match="while training, GPU 0 would hold"):
        plan_run(conf).check_memory()
    (warning,) = plan_run(conf, ["trainer_common.memory_check=warn"]).check_memory()
    assert "GPU 0" in warning


def test_a_run_that_does_not_fit_ends_before_its_directory_exists(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_gpus(monkeypatch, 2, 6)
    assert exit_code_of(["run", "--conf", str(conf)]) == 2
    assert "memory_check" in capsys.readouterr().err
    assert not (conf.parent / "launcher_record").exists()


def test_what_fits_is_not_refused(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_gpus(monkeypatch, 2, 100)
    assert plan_run(conf).check_memory() == []


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (None, "neither on this disk nor in the cache"),
        ({"model_type": "mixed", "num_experts": 8}, "not a dense decoder"),
        (SHAPE, "acme computes on GPUs"),
    ],
)
def test_without_a_plan_there_is_a_reason_and_no_refusal(
    conf: Path, config: dict[str, object] | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astuner.settings.planning.memory_plan.gpu_count", lambda: 0)
    file = conf.parent / "model/config.json"
    file.unlink() if config is None else file.write_text(json.dumps(config))
    assert why in (plan_run(conf).plan_memory(look_at_hardware()).unknown or "")
    assert plan_run(conf).check_memory() == []


def test_adapters_are_planned_with_the_shape_of_their_base(conf: Path) -> None:
    adapters = conf.parent / "adapters"
    adapters.mkdir()
    (adapters / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(conf.parent / "model"), "r": 4}))
    shape = plan_run(conf, ["model.path=adapters"]).plan_memory(Hardware(gpus=2)).shape
    assert shape is not None
    assert shape.parameters == 1_130_816


def test_this_machine_has_memory() -> None:
    main = look_at_hardware().main_bytes
    assert main is not None
    assert main > 0
