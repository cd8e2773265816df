"""A task of one's own on a CPU: twenty demonstrations, and a tiny model that learns them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Cli, environment
from python_server import PythonServer
from ticket_project import write_rows, write_ticket_project

WARM_START = ("warm-start", "--conf", "tune.yaml", "--demos", "demos.jsonl", "--tiny", "--validate-before")

GENERATE = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained("model"), AutoTokenizer.from_pretrained("model")
messages = [{"role": "system", "content": "Send the ticket to the right queue."}, {"role": "user", "content": "My vpn is wrong."}]
tools = [{"type": "function", "function": {"name": "route"}}]
text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
print(tokenizer.decode(model.generate(input_ids=ids, max_new_tokens=32, do_sample=False)[0, ids.shape[1]:]))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tickets")
    write_ticket_project(directory)
    return directory


@pytest.fixture(scope="module")
def warm_started(home: Path, cli: Cli) -> str:
    """What the command printed."""
    pytest.importorskip("torch")
    ended = cli(*WARM_START, "--out", "model", cwd=home, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return str(ended.stdout)


def read_numbers(printed: str, row: str) -> list[float]:
    line = next(line for line in printed.splitlines() if line.startswith(row))
    return [float(number.rstrip("%")) for number in line.removeprefix(row).split()]


def test_the_demonstrations_are_learnt_and_the_task_is_rewarded(warm_started: str) -> None:
    before, after = read_numbers(warm_started, "loss, 18 trained")
    assert before > 5
    assert after <= 0.1
    assert read_numbers(warm_started, "token accuracy, 2 held out")[1] > 70
    before, after = read_numbers(warm_started, "reward, validation tasks")
    assert before <= 0.2
    assert after > before


def test_the_model_loads_in_transformers_and_calls_the_tool(warm_started: str, home: Path, python_server: PythonServer) -> None:
    assert warm_started
    found = python_server.run(["-c", GENERATE], cwd=home, env=environment(), timeout=240)
    assert found.returncode == 0, found.stderr
    assert '{"name": "route", "arguments": {"queue": "' in found.stdout


def test_the_same_command_makes_the_same_model(warm_started: str, home: Path, cli: Cli) -> None:
    assert warm_started
    ended = cli(*WARM_START, "--out", "again", cwd=home, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert (home / "again/model.safetensors").read_bytes() == (home / "model/model.safetensors").read_bytes()
    assert (home / "again/tokenizer.json").read_bytes() == (home / "model/tokenizer.json").read_bytes()


def test_wrong_demonstrations_are_refused_before_torch_is_imported(tmp_path: Path) -> None:
    write_ticket_project(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "demos.jsonl").read_text().splitlines()]
    long = {"messages": [{"role": "user", "content": "x y " * 300}, {"role": "assistant", "content": "z"}]}
    write_rows(tmp_path / "demos.jsonl", [*rows[:2], {"messages": []}, long])
    code = (
        "import sys\nfrom astuner.cli import exit_code_of\n"
        f"print(exit_code_of({[*WARM_START, '--out', 'model']!r}), 'torch' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert ended.stdout == "2 False\n"
    assert "error: 2 problems\n  demos.jsonl:3: 'messages' must be a list" in ended.stderr
    assert "\n  demos.jsonl:4: up to messages[1] it has" in ended.stderr
    assert not (tmp_path / "model").exists()
