"""What a `debug` run imports: only what its engine and its agent need, so that the first transcript comes soon."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from astuner_devkit.scripted_api import scripted_api

DEBUG = ("run", "--conf", "tune.yaml", "--backbone", "debug")
PLAY = """
import sys
from astuner.cli import exit_code_of
code = exit_code_of(sys.argv[1:])
print(*sys.modules)
sys.exit(code)
"""
LOAD = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
ids = AutoTokenizer.from_pretrained("model")("hi", return_tensors="pt").input_ids
AutoModelForCausalLM.from_pretrained("model")(ids)
print(*sys.modules)
"""
SLOW = frozenset({"accelerate", "datasets", "peft", "scipy", "sklearn", "sympy", "torch", "transformers"})
"""Packages whose modules take seconds to import."""


def list_imports(code: str, cwd: Path, arguments: Sequence[str] = ()) -> set[str]:
    """Return the modules that a Python process has imported at its end."""
    ran = subprocess.run([sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.splitlines()[-1].split())


def find_packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def find_slow(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in SLOW}


@pytest.fixture
def home(quickstart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quickstart's project, whose agent uses the OpenAI SDK, without anything remembered from other runs."""
    for item in quickstart.iterdir():
        if item.name != "launcher_record":
            (tmp_path / item.name).symlink_to(item)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_with_a_remote_model_nothing_slow_is_imported(home: Path):
    with scripted_api(r"\boxed{4}") as api:
        engine = ("--set=rollout.name=openai", f"--set=rollout.openai={{base_url: {api.url}, model: m}}")
        imported = list_imports(PLAY, home, [*DEBUG, *engine])
    assert "openai" in imported
    assert find_packages(imported) & SLOW == set()


def test_with_a_known_tokenizer_torch_is_not_imported(home: Path):
    engine = ("--set=rollout.name=scripted", '--set=rollout.scripted={replies: ["4"]}')
    first, second = (list_imports(PLAY, home, [*DEBUG, *engine, f"--set=experiment_name={name}"]) for name in ("a", "b"))
    assert find_packages(first) & SLOW >= {"torch", "transformers"}
    assert find_packages(second) & SLOW == {"transformers"}


def test_the_engine_local_imports_what_loading_its_model_does(home: Path):
    played, loaded = list_imports(PLAY, home, DEBUG), list_imports(LOAD, home)
    assert "torch" in played
    assert find_slow(played) - loaded == set()
