"""Two agents agree on a language: the command of the page in a few steps, and the control in which one side stays."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from harness import REPOSITORY
from page_commands import Bash, read_blocks

TUTORIAL = REPOSITORY / "tutorial" / "two_agents"
DATA = ("demos.jsonl", "rounds.jsonl")
MADE = shutil.ignore_patterns("launcher_record", "model", "__pycache__")
STEPS = 25
RUN = re.compile(r"^astuner run\b.*", re.MULTILINE)


def read_rewards(run: Path) -> list[float]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row["val/reward/mean"] for row in rows if row["kind"] == "validation"]


def test_two_agents_begin_to_agree_and_one_alone_changes_only_itself(bash: Bash, tmp_path: Path):
    home = Path(shutil.copytree(TUTORIAL, tmp_path / "two_agents", ignore=MADE))
    yaml = home / "tune.yaml"
    yaml.write_text(yaml.read_text().replace("total_training_steps: 60", f"total_training_steps: {STEPS}"))
    [command] = read_blocks(home / "README.md", "bash")
    bash(command, home)
    before, after = read_rewards(home / "launcher_record" / "signal.2-language")
    assert before < 0.45
    assert after > before + 0.15
    yaml.write_text(yaml.read_text().replace("{speaker: {}, listener: {}}", "{speaker: {}}"))
    short = "--set stage=language --set model.path=launcher_record/signal.1-words/model --set experiment_name=alone"
    bash(f"astuner run --conf tune.yaml {short} --set trainer_common.total_training_steps=2", home)
    checkpoint = home / "launcher_record" / "alone.2-language" / "checkpoints" / "step_2"
    assert [path.name for path in checkpoint.iterdir() if path.is_dir()] == ["speaker"]


def test_the_script_writes_the_data(bash: Bash, tmp_path: Path):
    home = Path(shutil.copytree(TUTORIAL, tmp_path / "two_agents", ignore=MADE))
    for file in DATA:
        (home / file).unlink()
    bash("python write_data.py", home)
    assert [(home / file).read_bytes() for file in DATA] == [(TUTORIAL / file).read_bytes() for file in DATA]
