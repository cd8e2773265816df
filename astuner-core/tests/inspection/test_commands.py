"""`astuner episodes` and `runs`: what they print for people, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from astuner_devkit.command_line import CommandResult
from astuner_devkit.episodes import episode

Cli = Callable[..., CommandResult]


def test_a_debug_run_is_shown_again_as_it_was(run: Callable[..., Any], cli: Cli):
    tasks = [
        {"task_id": "two", "main_query": "What is 2 + 2?", "answer": "4"},
        {"task_id": "six", "main_query": "6?", "answer": "6"},
    ]
    played = run(tasks=tasks, replies=("4",))
    shown = cli("episodes", played.directory)
    transcripts = [text for text in played.notices if text.startswith("episode ")]
    assert shown.code == 0
    assert len(transcripts) == 2
    assert sorted(shown.out.rstrip().split("\nepisode ")) == sorted("\n".join(transcripts).split("\nepisode "))
    assert shown.err == f"2 of 2 episodes in {played.directory}/episodes/train.jsonl\n"


def test_the_lowest_of_a_step_is_one_command_away(write_run, stored, cli: Cli):
    write_run("mine", episodes=stored)
    shown = cli("episodes", "mine", "--step", 1, "--lowest", 1)
    assert shown.out.splitlines()[0] == "episode train/1/a/0: π?"
    assert shown.out.splitlines()[-1] == "  reward 0, no success"
    assert "\x1b" not in shown.out
    assert shown.err == "1 of 4 episodes of step 1 in launcher_record/mine/episodes/train.jsonl\n"


def test_the_document_holds_every_episode_with_its_reward_and_what_is_damaged(write_run, stored, cli: Cli):
    path = write_run("mine", episodes=stored)
    with (path / "episodes/train.jsonl").open("ab") as file:
        file.write(b'{"kind":"nonsense"}\n')
    document = json.loads(cli("episodes", "mine", "--json", "--step", 1).out)
    rewards = {one["id"]: (one["reward"], one["is_success"], one["completed"]) for one in document["episodes"]}
    assert rewards == {
        "train/1/b/0": (0.25, False, True),
        "train/1/b/1": (1.0, True, True),
        "train/1/a/0": (0.0, False, True),
        "train/1/a/1": (None, None, False),
    }
    assert document["episodes"][0]["calls"][0]["output_ids"] == [7, 8, 2]
    assert document["run"] == "launcher_record/mine"
    assert document["problems"][0].startswith("launcher_record/mine/episodes/train.jsonl:12: 1 line is damaged")


def test_nothing_is_printed_before_a_mistake_is_found(write_run, stored, cli: Cli):
    write_run("mine", episodes=stored)
    shown = cli("episodes", "mine", "--json", "--step", 9)
    assert (shown.code, shown.out) == (2, "")
    assert "no episodes of step 9; there are those of steps 1 to 2" in shown.err


def test_long_messages_are_shortened_unless_they_are_wanted_in_full(write_run, cli: Cli):
    from attrs import evolve

    call = evolve(episode().calls[0], reply={"role": "assistant", "content": "x" * 5000})
    write_run("mine", episodes=[evolve(episode(), calls=(call,))])
    short = cli("episodes", "mine").out
    assert "[... 3,001 characters ...]" in short
    assert "the full text is in launcher_record/mine/episodes/train.jsonl" in short
    assert "x" * 5000 in cli("episodes", "mine", "--full").out


def row(step: int, reward: float, **more: float) -> dict[str, Any]:
    return {"step": step, "kind": "train", "reward/mean": reward, "time/step_s": 40.0, "tokens/generated": 1000.0, **more}


def validated(step: int, reward: float) -> dict[str, Any]:
    return {"step": step, "kind": "validation", "val/reward/mean": reward}


def test_runs_are_a_table(write_run, cli: Cli):
    planned = {"trainer_common": {"total_training_steps": 2}}
    run = write_run("a", rows=[validated(0, 0.25), row(1, 0.1), row(2, 0.5)], settings=planned)
    (run / "checkpoints" / "weights").write_bytes(bytes(3_000_000))
    write_run("b/c", status="interrupted")
    assert cli("runs").out.splitlines() == [
        "NAME  STATE        STEPS   REWARD          BEST VALIDATION  TIME        TOKENS  DISK",
        "a     finished     2 of 2  0.100 -> 0.500  0.250 at step 0  1 min 20 s  2,000   3 MB",
        "b/c   interrupted  0       -               -                0 s         0       0 MB",
    ]


def test_runs_are_a_document(write_run, cli: Cli):
    write_run("a", rows=[row(1, 0.1)])
    document = json.loads(cli("runs", "launcher_record", "--json").out)
    assert [(one["name"], one["status"], one["last_reward"]) for one in document["runs"]] == [("a", "finished", 0.1)]
    assert document["problems"] == []


def test_what_a_killed_save_left_is_named(write_run, cli: Cli):
    left = write_run("a", status="interrupted") / "checkpoints" / "writing_2"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"0" * 1_200_000)
    shown = cli("runs").err
    assert shown == (
        "warning: launcher_record/a/checkpoints: a save that was killed has left writing_2 (1.2 MB); --resume deletes it, "
        "and so may you\n"
    )


def test_a_directory_without_runs_is_named(cli: Cli):
    shown = cli("runs", "nowhere")
    assert (shown.code, shown.out, shown.err) == (0, "", "no runs in nowhere\n")


@pytest.mark.parametrize("command", ["episodes", "runs"])
def test_the_help_has_examples(cli: Cli, command: str):
    assert f"\n    astuner {command}" in cli(command, "--help").out.partition("Examples:")[2]
