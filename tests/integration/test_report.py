"""`astuner report` of a real run: its figures are those that the run has written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harness import SMALL, Cli
from runs_on_disk import metric_rows, record


def test_the_figures_of_a_resumed_run_are_those_that_it_has_written(project: Path, cli: Cli) -> None:
    pytest.importorskip("torch")
    command = [
        "run",
        "--conf",
        "tune.yaml",
        *SMALL,
        "--set=trainer_common.val_before_train=true",
        "--set=trainer_common.test_freq=2",
    ]
    assert cli(*command, "--set=trainer_common.total_training_steps=2", cwd=project).returncode == 0
    resumed = cli(*command, "--resume", cwd=project)
    assert resumed.returncode == 0, resumed.stderr
    run = record(project)
    made = cli("report", run.name, "--out", "report.html", "--json", cwd=project)
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    rows = {row["step"]: row for row in metric_rows(run) if row["kind"] == "train"}
    validations = [row for row in metric_rows(run) if row["kind"] == "validation"]
    tokens = {label: figure["value"] for label, figure, _ in document["waterfall"]["tokens"]}
    assert tokens["sampled"] == sum(row["tokens/generated"] for row in rows.values())
    assert tokens["= trainable"] == sum(row["signal/tokens_trainable"] for row in rows.values())
    assert document["outcome"]["validations"][-1]["reward"]["value"] == validations[-1]["val/reward/mean"]
    assert document["outcome"]["steps"]["value"] == max(rows)
    assert document["outcome"]["attempts"]["value"] == 2
    assert document["problems"] == []

    page = ElementTree.fromstring((project / "report.html").read_text(encoding="utf-8"))
    text = re.sub(r"\s+", " ", "".join(page.itertext()))
    assert f"astuner episodes {run.name} --split train --step 1" in text
    assert str(project) not in text
