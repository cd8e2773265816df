"""The math agent of the tutorial on real GSM8K rows: reader, agent and judge on `debug`, a few steps on `local`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from harness import REPOSITORY, Cli
from runs_on_disk import metric_rows, record


@pytest.fixture
def math_agent(tmp_path: Path) -> Path:
    home = tmp_path / "math_agent"
    shutil.copytree(REPOSITORY / "tutorial" / "math_agent", home)
    return home


def test_on_debug_the_answers_are_judged(cli: Cli, math_agent: Path, quickstart: Path):
    # The first sample task asks for 72; the scripted model is right about it and wrong about the second.
    engine = 'rollout.scripted={replies: ["Half of 48 is 24, together \\\\boxed{72}."]}'
    finished = cli(
        "run",
        "--conf",
        "math_agent.yaml",
        "--backbone=debug",
        "--set=rollout.name=scripted",
        f"--set={engine}",
        cwd=math_agent,
        env={"MATH_AGENT_MODEL": str(quickstart / "model")},
    )
    assert finished.returncode == 0, finished.stderr
    (row,) = metric_rows(record(math_agent, "math_agent.debug"))
    assert (row["reward/mean"], row["success/rate"]) == (0.5, 0.5)
    assert "Natalia sold clips" in finished.stderr


def test_on_local_a_tiny_model_takes_a_few_steps_on_the_real_rows(cli: Cli, math_agent: Path, quickstart: Path):
    finished = cli(
        "run",
        "--conf",
        "math_agent.yaml",
        "--backbone=local",
        "--set=rollout.max_response_length_in_one_turn=24",
        "--set=trainer_common.total_training_steps=2",
        cwd=math_agent,
        env={"MATH_AGENT_MODEL": str(quickstart / "model")},
    )
    assert finished.returncode == 0, finished.stderr
    assert [row["signal/episodes_rewarded"] for row in metric_rows(record(math_agent, "math_agent"))] == [16, 16]


def test_every_gsm8k_row_is_read_without_conversion(tmp_path: Path):
    from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
    from astuner.settings.config.sections import DatasetFileSection, FileSplit

    data = REPOSITORY.parent / "shared" / "data" / "gsm8k"
    if not data.is_dir():
        data = REPOSITORY / "tutorial" / "math_agent" / "data"
    paths = sorted(data.glob("*.jsonl"))
    assert paths
    for path in paths:
        tasks = list(DatasetFileReader(DatasetFileSection(training=FileSplit(file_path=str(path))), tmp_path).read("train"))
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert [(task.main_query, task.metadata["answer"]) for task in tasks] == [
            (row["question"], row["answer"]) for row in rows
        ]
