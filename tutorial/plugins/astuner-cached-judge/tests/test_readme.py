"""The YAML of the README turns the extension on, and it prints what the README says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")

SLOW = """
import time

class Slow:
    def compute_reward(self, workflow_task, workflow_output):
        time.sleep(0.01)
        with open("asked.txt", "a") as file:
            file.write(".")
        return 1.0
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "slow.py").write_text(SLOW.replace("asked.txt", str(tmp_path / "asked.txt")))
    (written,) = blocks("yaml")
    return {**yaml.safe_load(written)["astuner"], "rollout": {"num_repeat": 2}}


TASKS = [{"task_id": f"t{n}", "main_query": f"{n} + {n}?"} for n in range(4)]


def test_a_second_run_asks_the_judge_nothing(run: Any, settings: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = blocks("text")
    assert run("./slow.py:Slow", tasks=TASKS, settings=settings).rewards == [1.0] * 8
    assert first in capfd.readouterr().err
    assert run("./slow.py:Slow", tasks=TASKS, settings=settings).rewards == [1.0] * 8
    assert second in capfd.readouterr().err
    assert (tmp_path / "asked.txt").read_text() == "...."


def test_a_judge_that_is_chosen_and_not_there_is_told(run: Any, settings: Any, capfd: pytest.CaptureFixture[str]) -> None:
    settings["plugins"]["options"]["cached_judge"] = {"path": "v.sqlite", "judges": ["slwo"]}
    run("./slow.py:Slow", tasks=TASKS, settings=settings)
    assert "cached_judge: no judge of this run is called slwo" in capfd.readouterr().err
