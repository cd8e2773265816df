"""An agent plays task folders, and the tests of each task give its reward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.contract.schema import Episode
from astuner_devkit.run_in_process import PlayedRun

PlayFolders = Callable[..., PlayedRun]
WRITE = "echo 'Hello, world!' > hello.txt"
FIX = "printf 'def mean(numbers):\\n    return sum(numbers) / len(numbers)\\n' > stats.py"
LOOK = "for one in /tests /solution /oracle /logs ~/.astuner-task; do find $one -type f 2>/dev/null; done"


def test_the_reward_is_that_of_the_task_and_every_token_is_trained(play_folders: PlayFolders, tasks: Path, kind: str) -> None:
    [episode] = play_folders(tasks, "hello-file", says=[WRITE], kind=kind).episodes
    assert (episode.reward, episode.is_success) == (1.0, True)
    assert output(episode).metadata["rewards"] == {"reward": 1.0}
    assert sum(sample.trained for sample in episode.samples) == sum(len(call.output_ids) for call in episode.calls)
    [other] = play_folders(tasks, "hello-file", says=["echo no > hello.txt"], kind=kind).episodes
    assert (other.reward, other.is_success) == (0.0, False)


def test_named_rewards_are_metrics(play_folders: PlayFolders, tasks: Path, kind: str) -> None:
    played = play_folders(tasks, "fix-mean", says=[FIX], kind=kind)
    [episode] = played.episodes
    # The mean is right now, and no numbers still raise another error.
    assert episode.reward == 0.0
    assert output(episode).metadata["rewards"] == {"reward": 0.0, "share": pytest.approx(2 / 3)}
    assert played.metrics["workflow/reward/share"] == pytest.approx(2 / 3)
    assert "test_no_numbers" in output(episode).metadata["tests_output"]


def test_the_summary_of_pytest_is_the_reward_of_the_older_format(play_folders: PlayFolders, tasks: Path, kind: str) -> None:
    [episode] = play_folders(tasks, "old-hello", says=[WRITE], kind=kind).episodes
    assert (episode.reward, output(episode).log_metrics["reward/passed_tests"]) == (1.0, 1.0)
    [other] = play_folders(tasks, "old-hello", says=["touch hello.txt"], kind=kind).episodes
    assert (other.reward, output(other).log_metrics["reward/passed_tests"]) == (0.0, 0.5)


def test_the_agent_sees_neither_tests_nor_solution_and_what_it_leaves_there_does_not_count(
    play_folders: PlayFolders, tasks: Path, kind: str
) -> None:
    plant = (
        "for one in /tests /logs/verifier ~/.astuner-task/tests ~/.astuner-task/logs/verifier; do mkdir -p $one && "
        "echo 1 > $one/reward.txt && echo '{\"reward\": 1}' > $one/reward.json && echo 0 > $one/expected.txt; done; true"
        if kind == "bubblewrap"
        else "for one in tests logs/verifier; do mkdir -p ~/.astuner-task/$one; "
        "echo '{\"reward\": 1}' > ~/.astuner-task/$one/reward.json; done; true"
    )
    [episode] = play_folders(tasks, "hello-file", says=[LOOK, plant], kind=kind).episodes
    assert [message["content"] for message in episode.calls[1].messages[-1:]] == ["(no output)"]
    assert (episode.reward, output(episode).metadata["rewards"]) == (0.0, {"reward": 0.0})


def test_paths_are_those_of_the_task_in_bubblewrap_and_rewritten_in_local(
    play_folders: PlayFolders, tasks: Path, kind: str
) -> None:
    [episode] = play_folders(tasks, "count-words", says=["pwd; ls"], kind=kind).episodes
    where, files = str(episode.calls[1].messages[-1]["content"]).split()
    assert files == "poem.txt"
    assert where.endswith("/app/text" if kind == "bubblewrap" else "/work/text")
    assert f"{where}/poem.txt" in str(episode.calls[0].messages[-1]["content"])


def test_variables_of_the_task_reach_the_agent_and_the_tests(
    play_folders: PlayFolders, tasks: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATS_STRICT", "0")
    [episode] = play_folders(tasks, "fix-mean", says=["echo $STATS_NAME $STATS_UNIT $STRICT."], kind=kind).episodes
    assert str(episode.calls[1].messages[-1]["content"]).split() == ["mean", "seconds", "."]
    assert "FAILED" in str(output(episode).metadata["tests_output"])
    assert "('0', 'mean')" in str(output(episode).metadata["tests_output"])


def test_an_agent_that_reaches_the_time_limit_of_the_task_is_ended_and_its_work_is_tested(
    play_folders: PlayFolders, tasks: Path, kind: str
) -> None:
    change(tasks / "hello-file" / "task.toml", "timeout_sec = 120.0", "timeout_sec = 4.0")
    [episode] = play_folders(tasks, "hello-file", says=[f"{WRITE}; sleep 20; echo late > hello.txt"], kind=kind).episodes
    assert (episode.reward, output(episode).log_metrics["agent_timeouts"]) == (1.0, 1.0)


def test_what_a_sandbox_cannot_honour_is_warned_of_once(
    play_folders: PlayFolders, tasks: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(tasks / "hello-file" / "task.toml", "cpus = 1\n", "cpus = 1\ngpus = 1\n")
    change(tasks / "hello-file" / "task.toml", "[verifier]\n", "[verifier]\nuser = 'tester'\n")
    play_folders(tasks, "hello-file", "count-words", says=[WRITE])
    play_folders(tasks, "hello-file", says=[WRITE])
    warnings = [record.getMessage() for record in caplog.records]
    for text in ("tasks set cpus, memory_mb, which", "environment.gpus, which has no effect", "verifier.user"):
        assert sum(text in warning for warning in warnings) <= 1
    assert any("environment.gpus, which has no effect" in warning for warning in warnings)


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def output(episode: Episode):
    assert episode.output is not None, episode.failures
    return episode.output
