"""`astuner config memory`: the plan of memory of a run, as tables and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planned_project import give_gpus, write_planned_project

from astuner.cli import exit_code_of


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_planned_project(tmp_path)


def plan(conf: Path, *more: str) -> int:
    return exit_code_of(["config", "memory", "--conf", str(conf), *more])


def test_gpus_with_the_same_parts_are_one_table(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(conf, "--gpus", "4x1") == 0
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines() if line.isupper() or "HOW" in line] == [
        "GPUS 0-2",
        "GPU 3",
        "MAIN MEMORY",
    ]
    assert "1.1 million parameters" in out


def test_each_phase_has_its_sum(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(conf, "--gpus", "2x1", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    weights = 4 * document["parameters"]
    trainer, engine, main = document["devices"]
    assert trainer["totals"] == {"playing": weights, "sending": weights, "training": 2 * weights}
    assert engine["totals"] == {"playing": weights // 2, "sending": 0, "training": 0}
    assert (main["name"], main["totals"]["sending"]) == ("main memory", weights)


def test_what_does_not_fit_names_the_keys_that_mend_it(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_gpus(monkeypatch, 2, 6)
    assert plan(conf) == 2
    err = capsys.readouterr().err
    assert "while training, GPU 0 would hold" in err
    assert "model.path smaller; model.lora_rank up" in err


@pytest.mark.parametrize("given", ["8", "8x", "x80", "0x80", "8x80GB"])
def test_gpus_are_written_as_a_number_and_a_size(conf: Path, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(conf, "--gpus", given) == 2
    assert "8x80" in capsys.readouterr().err
