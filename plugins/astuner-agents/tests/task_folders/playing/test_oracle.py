"""The solution of every good task has a reward of 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from astuner_devkit.run_in_process import PlayedRun

PlayFolders = Callable[..., PlayedRun]
ORACLE = "astuner_agents.harbor:Oracle"


def test_every_solution_has_a_reward_of_one(play_folders: PlayFolders, tasks: Path, kind: str) -> None:
    played = play_folders(tasks, kind=kind, workflow=ORACLE)
    assert {episode.task.task_id: episode.reward for episode in played.episodes} == dict.fromkeys(
        ("count-words", "fix-mean", "hello-file", "old-hello"), 1.0
    )
    assert not any(episode.calls for episode in played.episodes)


def test_a_wrong_solution_is_found(play_folders: PlayFolders, tasks: Path) -> None:
    (tasks / "hello-file" / "solution" / "solve.sh").write_text("echo wrong; exit 3\n")
    [episode] = play_folders(tasks, "hello-file", workflow=ORACLE).episodes
    assert episode.output is not None
    assert (episode.reward, episode.output.metadata["exit_code"], episode.output.metadata["final_answer"]) == (0.0, 3, "wrong")


def test_a_task_without_a_solution_is_named(play_folders: PlayFolders, tasks: Path) -> None:
    (tasks / "hello-file" / "solution" / "solve.sh").unlink()
    [episode] = play_folders(tasks, "hello-file", workflow=ORACLE).episodes
    assert "hello-file has no solution that is a script (solution/solve.sh)" in episode.failures[-1].detail
