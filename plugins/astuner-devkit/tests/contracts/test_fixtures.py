from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

from astuner import hookimpl
from astuner.contract.errors import ConfigError, PluginError, RunFailed
from astuner.contract.protocols import Engine
from astuner.contract.schema import Notice, Request, Sampling
from astuner.settings.plugins.hooks import Hooks
from astuner_devkit.project import write_project
from astuner_devkit.run_in_process import PlayedRun
from astuner_devkit.tokenizer import tiny_tokenizer

FILES = {"acme_strict.py": "class Strict:\n    def compute_reward(self, task, output):\n        return 0.25\n"}
ENTRY_POINTS = {"astuner.judges": {"strict": "acme_strict:Strict"}}


def test_a_fake_distribution_is_found_and_imported(fake_distribution: Callable[..., Path]) -> None:
    site = fake_distribution("acme-strict", "1.2", FILES, ENTRY_POINTS)
    (entry,) = entry_points(group="astuner.judges", name="strict")
    assert (entry.load().__name__, version("acme-strict")) == ("Strict", "1.2")
    assert sys.modules["acme_strict"].__file__ == str(site / "acme_strict.py")


def test_a_second_distribution_is_found_although_the_clock_stood_still(fake_distribution: Callable[..., Path]) -> None:
    site = fake_distribution("acme-strict")
    assert version("acme-strict") == "1.0"
    # Python looks a directory up again when its time of change is another one, which a coarse clock does not tell.
    before = site.stat().st_mtime_ns
    fake_distribution("acme-kind")
    os.utime(site, ns=(before, before))
    assert version("acme-kind") == "1.0"


def test_a_process_that_the_test_starts_finds_it_too(fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-strict", files=FILES)
    code = "import acme_strict; print(acme_strict.Strict.__name__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout == "Strict\n"


NOTHING_LEFT = """
import os, sys
from importlib.metadata import PackageNotFoundError, version
import pytest

PATH = list(sys.path)

def test_one(fake_distribution):
    fake_distribution("acme-gone", files={"acme_gone/part.py": "", "space/inner.txt": ""})
    import acme_gone.part
    import space
    assert version("acme-gone") == "1.0"
    assert os.environ["PYTHONPATH"].endswith(":/before")

def test_two():
    assert sys.path == PATH
    assert os.environ["PYTHONPATH"] == "/before"
    assert not [name for name in sys.modules if name.startswith(("acme_gone", "space"))]
    with pytest.raises(PackageNotFoundError):
        version("acme-gone")
    with pytest.raises(ModuleNotFoundError):
        import acme_gone
"""


def test_after_the_test_nothing_of_it_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/before")
    assert _pytest(tmp_path, NOTHING_LEFT) == (0, "2 passed")


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def astuner_notice(self, notice: Notice) -> None:
        self.heard.append(notice.text)


class Failing:
    @hookimpl
    def astuner_notice(self, notice: Notice) -> None:
        raise KeyError("answer")


class Misspelt:
    @hookimpl
    def astuner_notise(self, notice: Notice) -> None: ...


def test_hooks_reach_the_extensions_that_are_given(hooks: Callable[..., Hooks]) -> None:
    listener = Listener()
    hooks(listener).notice(Notice(text="hello"))
    assert listener.heard == ["hello"]


def test_hooks_take_no_installed_extension_in(hooks: Callable[..., Hooks], fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-loud", files={"acme_loud.py": "1 / 0"}, entry_points={"astuner.hooks": {"loud": "acme_loud:Loud"}})
    assert hooks().problems == ()


def test_hooks_name_an_extension_that_fails(hooks: Callable[..., Hooks]) -> None:
    said: list[str] = []
    hooks(Failing(), on_listener_error=said.append).notice(Notice(text="hello"))
    assert "extension 'Failing' (" in said[0]
    assert "KeyError: 'answer'" in said[0]


def test_hooks_refuse_a_misspelt_method(hooks: Callable[..., Hooks]) -> None:
    with pytest.raises(PluginError, match="Did you mean 'astuner_notice'"):
        hooks(Misspelt())


async def _answers(engine: Engine, *prompts: str) -> list[str]:
    tokenizer = tiny_tokenizer()
    said = []
    for place, prompt in enumerate(prompts):
        text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        sampling = Sampling(max_tokens=50, stop_token_ids=(tokenizer.eos_token_id,))
        request = Request(id=str(place), session="s", prompt_ids=tokenizer.encode(text), sampling=sampling)
        chunks = [chunk async for chunk in engine.generate(request)]
        said.append(tokenizer.decode([number for chunk in chunks for number in chunk.ids], skip_special_tokens=True))
    return said


def test_a_scripted_engine_gives_its_replies_in_turn(scripted_engine: Callable[..., Engine]) -> None:
    assert asyncio.run(_answers(scripted_engine("one", "two"), "a", "b", "c")) == ["one", "two", "two"]


def test_a_line_of_its_script_goes_before_the_replies(scripted_engine: Callable[..., Engine]) -> None:
    engine = scripted_engine("no idea", script=[(r"2 \+ 2", "4")])
    assert asyncio.run(_answers(engine, "who?", "2 + 2?")) == ["no idea", "4"]


def test_cli_answers_with_code_output_and_error(cli: Callable[..., Any]) -> None:
    found = cli("plugin", "list", "--kind", "nobody")
    assert (found.code, found.out) == (2, "")
    assert "no kind 'nobody'" in found.err


def test_cli_finds_a_fake_distribution(cli: Callable[..., Any], fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-strict", "1.2", FILES, ENTRY_POINTS)
    assert ["judge", "strict", "acme-strict", "1.2", "ok"] in [line.split() for line in cli("plugin", "list").out.splitlines()]


def test_cli_runs_in_the_directory_that_is_named(cli: Callable[..., Any], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine.py").write_text(FILES["acme_strict.py"])
    before = list(sys.path), Path.cwd()
    conf = write_project(home, "./mine.py:Strict")
    assert cli("config", "validate", "--conf", conf.name, cwd=home).code == 0
    assert (sys.path, Path.cwd()) == before
    assert "mine" not in sys.modules


def test_run_plays_the_tasks_and_returns_the_rewards(run: Callable[..., PlayedRun]) -> None:
    tasks = [{"main_query": "2 + 2?", "answer": "4"}, {"main_query": "2 + 3?", "answer": "5"}]
    assert run(tasks=tasks, replies=["4"]).rewards == [1.0, 0.0]


def test_run_judges_with_an_installed_judge(run: Callable[..., PlayedRun], fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-strict", files=FILES, entry_points=ENTRY_POINTS)
    assert run("acme-strict/strict").rewards == [0.25]


def test_run_judges_with_a_file_beside_the_yaml(run: Callable[..., PlayedRun], tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(FILES["acme_strict.py"])
    assert run("./judge.py:Strict").rewards == [0.25]


def test_run_plays_the_workflow_that_is_named(run: Callable[..., PlayedRun], tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "from astuner import WorkflowOutput\n"
        "class Agent:\n"
        "    async def execute(self, workflow_task, tuner):\n"
        "        return WorkflowOutput(reward=0.5)\n"
    )
    assert run(workflow="./agent.py:Agent").rewards == [0.5]


def test_run_returns_metrics_notices_and_the_directory(run: Callable[..., PlayedRun]) -> None:
    played = run(replies=["four"])
    assert played.metrics["reward/mean"] == 0.0
    assert any("assistant: four" in notice for notice in played.notices)
    assert (played.directory / "metrics.jsonl").is_file()


def test_settings_and_overrides_change_the_run(run: Callable[..., PlayedRun]) -> None:
    played = run(settings={"rollout": {"num_repeat": 3}, "seed": 5}, overrides=["rollout.num_repeat=2"])
    assert played.rewards == [1.0, 1.0]
    assert [episode.repeat for episode in played.episodes] == [0, 1]


def test_the_loggers_of_the_settings_still_log(run: Callable[..., PlayedRun], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    def log(self, step, metrics): open('logged', 'a').write(str(step))\n"
        "    def log_episodes(self, step, groups): pass\n"
        "    def close(self): pass\n".replace("'logged'", repr(str(tmp_path / "logged")))
    )
    run(settings={"trainer_common": {"logger": "./mine.py:Mine"}})
    assert (tmp_path / "logged").read_text() == "1"


def test_a_judge_that_fails_leaves_no_reward(run: Callable[..., PlayedRun], tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("class J:\n    def compute_reward(self, task, output):\n        raise KeyError('x')\n")
    assert run("./judge.py:J", settings={"rollout": {"failure_budget": 1.0}}).rewards == [None]


def test_a_run_that_fails_raises_the_reasons(run: Callable[..., PlayedRun], tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("class J:\n    def compute_reward(self, task, output):\n        raise KeyError('x')\n")
    with pytest.raises(RunFailed, match="judge_error"):
        run("./judge.py:J")


def test_a_wrong_setting_raises_the_problems(run: Callable[..., PlayedRun]) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'num_repeat'"):
        run(settings={"rollout": {"num_repeats": 3}})


AUTHORS_FILE = f"""
def test_judge(run, fake_distribution):
    fake_distribution("acme-strict", files={FILES!r}, entry_points={ENTRY_POINTS!r})
    assert run("strict").rewards == [0.25]
"""


def test_an_author_needs_nothing_but_a_test_file(tmp_path: Path) -> None:
    assert _pytest(tmp_path, AUTHORS_FILE) == (0, "1 passed")
    assert [tmp_path / "test_mine.py"] == [path for path in tmp_path.iterdir() if path.name != "__pycache__"]


def _pytest(directory: Path, source: str) -> tuple[int, str]:
    """Run pytest as an author does, on one file in a directory of its own."""
    (directory / "test_mine.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(directory), str(directory)]
    found = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    return found.returncode, found.stdout.splitlines()[-1].partition(" in ")[0]


def test_the_plugin_imports_nothing_heavy() -> None:
    heavy = ("numpy", "omegaconf", "cattrs", "rich", "stevedore", "torch", "transformers", "astuner.config", "astuner.plugins")
    code = f"import sys, astuner_devkit.pytest_plugin; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout == "[]\n"
