"""`astuner warm-start` on real verl, over Ray, on the CPU: the whole command, adapters, and an interrupt."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from quickstart_project import START_S
from ticket_project import write_ticket_project

from astuner_devkit.waiting import until

from .conftest import Project, succeeded

COMMAND = ("warm-start", "--conf", "tune.yaml", "--demos", "demos.jsonl", "--out", "trained", "--backbone")
EVALUATED = {"router-warm-start-before.eval", "router-warm-start-after.eval"}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The tickets; after the test no process of it is left."""
    made = tmp_path / "tickets"
    write_ticket_project(made)
    with Project.copy_beside(made, tmp_path) as project:
        yield project
    _, left = psutil.wait_procs(project.list_processes(), timeout=20)
    assert [process.cmdline() for process in left] == []


@pytest.mark.slow
def test_a_tiny_model_learns_the_task_and_is_measured_before_and_after(project: Any) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    known = set(project.home.iterdir())
    ended = project.cli(*COMMAND, "verl", "--tiny", "--validate-before", "--epochs", "40", timeout=3 * START_S)
    succeeded(ended)
    rows = {line[:32].strip(): line[32:].split() for line in ended.stdout.splitlines()}
    assert float(rows["loss, 18 trained"][1]) < 0.5 < 5 < float(rows["loss, 18 trained"][0])
    assert float(rows["token accuracy, 2 held out"][1].rstrip("%")) > 70
    before, after = map(float, rows["reward, validation tasks"])
    assert before < after
    assert "astuner run --conf tune.yaml --backbone verl --set model.path=./trained" in ended.stdout
    record = project.home / "launcher_record"
    assert {path.name for path in record.iterdir()} == EVALUATED
    assert set(project.home.iterdir()) - known - {record, project.home / "__pycache__"} == {project.home / "trained"}
    home = project.home / "trained"
    assert AutoModelForCausalLM.from_pretrained(home).config.vocab_size == len(AutoTokenizer.from_pretrained(home))


@pytest.mark.slow
def test_adapters_are_written_played_and_merged(project: Any) -> None:
    succeeded(project.cli(*COMMAND, "local", "--tiny", "--epochs", "5", timeout=START_S))
    project.home.joinpath("trained").rename(project.home / "start")
    settings = ("--set", "model.path=./start", "--set", "model.lora_rank=4", "--lr", "1e-2")
    ended = project.cli(*COMMAND, "verl", *settings, timeout=3 * START_S)
    succeeded(ended)
    home = project.home / "trained"
    described = json.loads((home / "adapter_config.json").read_text())
    assert (described["base_model_name_or_path"], described["r"]) == (str(project.home / "start"), 4)
    assert "astuner export trained --merge-lora --out trained-merged" in ended.stdout
    succeeded(project.cli("export", "trained", "--merge-lora", "--out", "trained-merged"))
    assert (project.home / "trained-merged" / "model.safetensors").is_file()
    refused = project.cli("eval", "--conf", "tune.yaml", "--backbone", "verl", "--set", "model.path=./trained")
    assert refused.returncode == 2
    assert f"`astuner export {home} --merge-lora --out DIRECTORY`" in refused.stderr


def test_an_interrupt_leaves_neither_a_model_nor_ray(project: Any) -> None:
    known = {path.name for path in project.home.iterdir()}
    settings = ("--set", "task_reader.dataset_file.validation=null", "--epochs", "100000")
    running = project.begin(*COMMAND, "verl", "--tiny", *settings)
    said = project.home / "said"
    until(lambda: running.poll() is not None or "before: trained loss" in said.read_text(), limit_s=START_S)
    # As Ctrl-C, which a test that runs in the background may have inherited as ignored.
    running.send_signal(signal.SIGTERM)
    assert running.wait(120) == 130, said.read_text()
    # Whether Python keeps the bytecode of the agent there is its own affair.
    assert {path.name for path in project.home.iterdir()} - {"__pycache__"} == known | {"said"}
