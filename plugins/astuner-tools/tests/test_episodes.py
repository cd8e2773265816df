"""`astuner episodes`: what it prints for people, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

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
    assert document["run"] == str(path.absolute())
    assert document["problems"][0].startswith("launcher_record/mine/episodes/train.jsonl:12: 1 line is damaged")


def test_nothing_is_printed_before_a_mistake_is_found(write_run, stored, cli: Cli):
    write_run("mine", episodes=stored)
    shown = cli("episodes", "mine", "--json", "--step", 9)
    assert (shown.code, json.loads(shown.out)["exit_code"]) == (2, 2)
    assert "no episodes of step 9; there are those of steps 1 to 2" in shown.err


def test_long_messages_are_shortened_unless_they_are_wanted_in_full(write_run, cli: Cli):
    from attrs import evolve

    call = evolve(episode().calls[0], reply={"role": "assistant", "content": "x" * 5000})
    write_run("mine", episodes=[evolve(episode(), calls=(call,))])
    short = cli("episodes", "mine").out
    assert "[... 3,001 characters ...]" in short
    assert "the full text is in launcher_record/mine/episodes/train.jsonl" in short
    assert "x" * 5000 in cli("episodes", "mine", "--full").out


def test_the_help_has_examples(cli: Cli):
    assert "\n    astuner episodes" in cli("episodes", "--help").out.partition("Examples:")[2]
