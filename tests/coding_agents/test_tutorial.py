"""The tutorial of coding agents in a small form: the command of its table, with the real program in its sandbox."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_stage import check_training, continues
from attrs import frozen

import astuner
from astuner.contract.errors import PluginError
from astuner.contract.schema import Episode
from astuner_agents.sandboxes.bubblewrap import BubblewrapSandboxes

REPOSITORY = Path(__file__).parents[2]
TUTORIAL = REPOSITORY / "tutorial" / "coding_agents"
STEPS = 2
VALIDATED = 2
SETTINGS = (
    "data.train_batch_size=2",
    "rollout.num_repeat=4",
    f"trainer_common.total_training_steps={STEPS}",
    f"trainer_common.test_freq={STEPS}",
)


@frozen
class Followed:
    row: dict[str, Any]
    """Of the table."""
    home: Path
    """The tutorial's copy."""
    run: astuner.Run


def can_use_bubblewrap() -> bool:
    try:
        BubblewrapSandboxes(BubblewrapSandboxes.Options()).check()
    except PluginError:
        return False
    return True


def run_python(arguments: Sequence[object], cwd: Path, pi: Path) -> str:
    """Run a command of this environment with the agent on the PATH; return what it prints."""
    path = os.pathsep.join([str(pi.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def followed(program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Followed:
    pytest.importorskip("astuner_local")
    folder = tmp_path_factory.mktemp("table")
    rows = (TUTORIAL / "validation.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    few = folder / "few.jsonl"
    few.write_text("".join(rows[:VALIDATED]), encoding="utf-8")
    settings = [*SETTINGS, f"task_reader.dataset_file.validation.file_path={few}"]
    table = [REPOSITORY / "benchmarks/gallery.py", "--tutorials", "coding_agents", "--seeds", "0", "--keep", folder]
    said = run_python([*table, *(word for setting in settings for word in ("--set", setting))], folder, program("pi"))
    [row] = json.loads(said.splitlines()[-1])
    home = folder / "0" / "coding_agents"
    return Followed(row, home, astuner.Run(home / "launcher_record" / "files"))


def list_episodes(followed: Followed) -> list[Episode]:
    return list(followed.run.episodes(split="train"))


def test_the_table_has_the_rewards_the_episodes_and_the_time(followed: Followed) -> None:
    row = followed.row
    assert (row["tutorial"], row["seed"]) == ("coding_agents", 0)
    assert all(0 <= row[name] <= 1 for name in ("before", "after", "reward_before", "reward_after"))
    # One validation of the warm start, two of the run, and its steps.
    assert row["episodes"] == 3 * VALIDATED + STEPS * 2 * 4
    assert row["cpu_s"] > 0


def test_the_program_plays_and_no_episode_fails(followed: Followed) -> None:
    episodes = list_episodes(followed)
    assert len(episodes) == STEPS * 2 * 4
    assert [episode.failures for episode in episodes if episode.failures] == []
    assert {episode.calls[0].tools[0]["function"]["name"] for episode in episodes} == {"bash"}
    assert any(len(episode.calls) > 1 for episode in episodes), "no episode called its tool"


def test_the_warm_started_model_calls_the_tool_as_the_program_offers_it(followed: Followed) -> None:
    """The demonstrations hold the prompt and the tool of the program, which has them from its own code."""
    demonstration = json.loads((TUTORIAL / "demos.jsonl").read_text(encoding="utf-8").splitlines()[0])
    call = list_episodes(followed)[0].calls[0]
    assert [dict(tool) for tool in call.tools] == demonstration["tools"]
    shown, sent = (re.sub(r"/\S*work", "", each[0]["content"]) for each in (demonstration["messages"], call.messages))
    assert sent == shown


def test_every_sampled_token_is_trained_or_has_a_reason(followed: Followed) -> None:
    for episode in list_episodes(followed):
        assert check_training(episode.calls) == sum(len(call.output_ids) for call in episode.calls)


def test_each_call_continues_the_last(followed: Followed) -> None:
    for episode in list_episodes(followed):
        indices = range(len(episode.calls))
        assert [later for earlier, later in pairwise(indices) if not continues(episode.calls, later, earlier)] == []


def test_the_training_changes_the_weights_if_siblings_differ(followed: Followed) -> None:
    """The prompt holds the directory of a sandbox, so it is not the same in every run whether any sibling is better."""
    from safetensors.numpy import load_file

    rows = map(json.loads, (followed.home / "launcher_record/files/metrics.jsonl").open(encoding="utf-8"))
    has_signal = any(row.get("signal/tokens_nonzero_advantage", 0) > 0 for row in rows)
    [before] = (followed.home / "model").glob("*.safetensors")
    [after] = (followed.home / f"launcher_record/files/checkpoints/step_{STEPS}").rglob("model*.safetensors")
    old, new = load_file(before), load_file(after)
    changed = [name for name in old if name in new and (old[name] != new[name]).any()]
    assert bool(changed) == has_signal


def test_one_changed_line_plays_it_in_bubblewrap(followed: Followed, program: Callable[[str], Path]) -> None:
    if not can_use_bubblewrap():
        pytest.skip("bubblewrap cannot be used here")
    conf = followed.home / "tune.yaml"
    text = conf.read_text(encoding="utf-8")
    assert "type: local  " in text
    conf.write_text(text.replace("type: local  ", "type: bubblewrap  "), encoding="utf-8")
    pi = program("pi")
    # The page installs it in `./agent`.
    conf.write_text(conf.read_text(encoding="utf-8").replace("[./agent]", f"[{pi.parents[2]}]"), encoding="utf-8")
    command = ["-m", "astuner", "run", "--conf", "tune.yaml", "--backbone", "debug"]
    settings = ("experiment_name=boxed", "debug.debug_first_n_tasks=1", "rollout.num_repeat=1")
    run_python([*command, *(word for setting in settings for word in ("--set", setting))], followed.home, pi)
    [episode] = astuner.Run(followed.home / "launcher_record" / "boxed.debug").episodes()
    assert not episode.failures
    # /workdir where the interpreter lies below /work.
    assert re.search(r"<cwd>\s+/work(dir)?\s+</cwd>", str(episode.calls[0].messages[0]["content"]))


def test_the_script_writes_the_data(tmp_path: Path) -> None:
    script = tmp_path / "write_data.py"
    script.write_bytes((TUTORIAL / "write_data.py").read_bytes())
    subprocess.run([sys.executable, script], check=True)
    for name in ("demos.jsonl", "train.jsonl", "validation.jsonl"):
        assert (tmp_path / name).read_bytes() == (TUTORIAL / name).read_bytes()


def test_no_task_of_the_validation_is_trained_or_demonstrated() -> None:
    demonstrations, tasks, new = (
        [json.loads(line) for line in (TUTORIAL / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        for name in ("demos", "train", "validation")
    )
    shown = {row["messages"][1]["content"] for row in demonstrations}
    assert not {row["main_query"] for row in new} & (shown | {row["main_query"] for row in tasks})
