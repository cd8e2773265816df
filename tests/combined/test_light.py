"""The core is light: no heavy package is imported before it is needed, whatever is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY

from astuner_devkit.project import write_tokenizer

HEAVY = ("torch", "transformers", "openai", "ray", "peft", "datasets", "tensorboard")

LOAD = """
import sys
from astuner.model.rendering import load_renderer
renderer = load_renderer("model")
tokenizer = renderer.tokenizer
chat = tokenizer.apply_chat_template([{"role": "user", "content": "What is 2 + 2?"}], tokenize=False)
print("torch" in sys.modules, type(tokenizer).__name__, tokenizer.encode(chat), renderer.turn_ends)
"""


def imported(code: str) -> list[str]:
    report = f"import sys\n{code}\nprint([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return eval(found.stdout.splitlines()[-1])


def test_the_core_imports_nothing_heavy():
    assert imported("import astuner") == []


def test_every_entry_point_of_ours_imports_light():
    code = (
        "from importlib.metadata import entry_points\n"
        "for group in ('readers','judges','trackers','loggers','backbones','engines','estimators','commands'):\n"
        "    for entry in entry_points(group=f'astuner.{group}'):\n"
        "        entry.load()"
    )
    assert imported(code) == []


@pytest.mark.parametrize("command", [["--help"], ["plugin", "list"]])
def test_the_command_line_imports_nothing_heavy(command: list[str]):
    code = f"from astuner.cli import exit_code_of\nexit_code_of({command!r})"
    assert imported(code) == []


def test_a_configuration_is_checked_without_anything_heavy(project: Path):
    arguments = ["config", "validate", "--conf", str(project / "tune.yaml")]
    code = f"from astuner.cli import exit_code_of\nassert exit_code_of({arguments!r}) == 0"
    # The project's agent uses the OpenAI SDK only inside `execute`.
    assert imported(code) == []


STORE = """
from pathlib import Path
from astuner.runs.store.episode_store import EpisodeFiles
from astuner_devkit.episodes import episode
store = EpisodeFiles(Path("launcher_record/mine/episodes"))
store.add_episode(episode())
store.close()
from astuner.cli import exit_code_of
"""


REPLAY = ["replay", "mine", "--conf", "new.yaml", "--judge", "astuner_devkit.judges:ExactAnswer"]


@pytest.mark.parametrize("command", [["episodes", "mine"], ["runs"], ["compare", "mine", "mine"], REPLAY])
def test_a_run_is_read_without_anything_heavy(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.yaml").write_text("astuner: {project_name: new}\n")
    assert imported(f"{STORE}\nassert exit_code_of({command!r}) == 0") == []


def test_a_tokenizer_that_was_loaded_before_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_tokenizer(tmp_path / "model")
    (tmp_path / "model/config.json").write_text('{"model_type": "qwen2", "dtype": "float32"}')
    (tmp_path / "model/generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def load() -> tuple[str, str]:
        ran = subprocess.run([sys.executable, "-c", LOAD], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
        torch, _, tokenizer = ran.stdout.strip().partition(" ")
        return torch, tokenizer

    (first_torch, first), (second_torch, second) = load(), load()
    assert first == second
    assert (first_torch, second_torch) == ("True", "False")


def test_the_configuration_reference_is_the_typed_model():
    docs = REPOSITORY / "docs"
    written = (docs / "configuration.md").read_text(encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(docs)!r}); import write_configuration as w; sys.stdout.write(w.document())"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert made == written, f"run: {sys.executable} docs/write_configuration.py"
