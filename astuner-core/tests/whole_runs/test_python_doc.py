"""What docs/python.md shows works as it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import astuner
from astuner_devkit.isolation import undo_after
from astuner_devkit.project import write_project

PAGE = (Path(__file__).parents[3] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MEMBERS = re.findall(r"`(\w+)", "".join(re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)))


@pytest.fixture
def home(tmp_path: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_project(tmp_path, name="tune")
    conf = tmp_path / "tune.yaml"
    # The page's runs are called after their experiments.
    lines = [line for line in conf.read_text().splitlines() if "experiment_dir" not in line]
    conf.write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_shows_its_state_metrics_and_episodes(home: Path, capsys: pytest.CaptureFixture[str]):
    with undo_after(home):
        exec(BLOCKS[0], {})
    shown = capsys.readouterr().out
    assert shown.startswith("finished\n")
    assert "train" in shown.split("\n", 1)[1]
    assert shown.endswith("train/1/sum/0 1.0\n")


def test_a_run_is_opened_later(home: Path):
    run = astuner.run("tune.yaml")
    (home / "launcher_record/my-experiment").symlink_to(run.path)
    found: dict[str, object] = {}
    exec(BLOCKS[1], found)
    assert found["rewards"] == [(1, 1.0)]


def test_a_sweep_has_a_run_for_each_value(home: Path):
    found: dict[str, object] = {}
    exec(BLOCKS[2], found)
    assert found["best"] == {1e-4: 1.0, 3e-4: 1.0}
    assert sorted(path.name for path in (home / "launcher_record").iterdir()) == ["lr-0.0001.debug", "lr-0.0003.debug"]


def test_every_member_of_the_table_exists():
    assert len(MEMBERS) >= 7
    assert [name for name in MEMBERS if name not in ("split", *dir(astuner.Run), "path")] == []
