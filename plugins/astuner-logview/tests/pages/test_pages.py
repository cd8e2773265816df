from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.schema import Group
from astuner_logview.answers import encode_answer
from astuner_logview.errors import Missing
from astuner_logview.library import Library
from astuner_logview.pages.runs import list_runs
from astuner_logview.parameters import Parameters

Ask = Callable[..., dict[str, Any]]


def test_a_run_is_one_row(library: Library) -> None:
    (row,) = list_runs(library, Parameters())["runs"]
    assert (row["name"], row["backbone"], row["status"], row["steps"]) == ("first", "local", "finished", 1)
    assert (row["episodes"], row["failed"], row["indexed"], row["curve"]) == (7, 2, 1.0, [[1, 0.5]])
    assert "/" not in row["id"]


def test_a_run_is_not_named_by_a_path(library: Library, record: Path) -> None:
    for name in (str(record / "first"), "../first", "first", ""):
        with pytest.raises(Missing, match="there is no run"):
            library.find(name)


def test_a_group_shows_where_its_siblings_part(ask: Ask) -> None:
    answer = ask("/group", split="train", step=1, task="a")
    assert [one["repeat"] for one in answer["siblings"]] == [0, 1, 2]
    first, second, third = answer["siblings"]
    assert (second["rationale"], second["components"]) == ("The proof is circular.", {"format": 0.5})
    assert (third["failure"]["reason"], third["completed"], third["reward"]) == ("timeout", False, None)
    assert answer["common"]["tokens"] == 5
    assert first["parts_at"] == {"turn": 0, "character": 1, "token": 5}
    assert (answer["previous"], answer["next"]) == (None, {"step": 1, "task": "b"})


def test_what_siblings_share_is_that_of_their_whole_replies(
    ask: Ask, record: Path, groups: list[Group], store: Callable[[Path, list[Group]], None]
) -> None:
    start = "\U0001f40b" * 30_000
    store(record / "first", [_reply(groups[1], step=5, contents=[f"{start}a", f"{start}b"])])
    siblings = ask("/group", split="train", step=5, task="b")["siblings"]
    (first,), (second,) = (one["turns_shown"] for one in siblings)
    assert first["shared"] == second["shared"] == {"reasoning": 0, "content": 60_000}
    assert [one["parts_at"]["character"] for one in siblings] == [60_000, 60_000]
    cut = first["reply"]["cut"]
    assert (first["reply"]["content"], cut["content"], cut["arguments"]) == ("\U0001f40b" * 20_000, 10_001, [])
    assert cut["digest"] != second["reply"]["cut"]["digest"]
    assert ask("/text", id="train/5/b/0", call=0, part="reply")["text"] == f"{start}a"


def test_a_reply_that_only_one_sibling_gave_is_not_shared(
    ask: Ask, record: Path, groups: list[Group], store: Callable[[Path, list[Group]], None]
) -> None:
    alone = evolve(groups[1].episodes[0], step=5, id="train/5/b/0")
    store(record / "first", [evolve(groups[1], step=5, episodes=(alone,))])
    (sibling,) = ask("/group", split="train", step=5, task="b")["siblings"]
    assert sibling["turns_shown"][0]["shared"] == {"reasoning": 0, "content": 0}


def test_an_episode_has_its_calls_paths_and_lanes(ask: Ask) -> None:
    answer = ask("/episode", id="train/1/a/1")
    (call,) = answer["calls"]
    assert (call["prompt_tokens"], call["output_tokens"], call["turn"]["reply"]["content"]) == (2, 3, "3")
    assert [message["content"] for message in call["turn"]["messages"]] == ["π?"]
    assert call["turn"]["messages"][0]["tools"][0]["function"]["name"] == "f"
    assert answer["paths"][0] | {"trained": 0} == {
        "leaf": 0,
        "agent": "agent",
        "calls": [0],
        "tokens": 5,
        "trained": 0,
        "main": True,
        "conversation": None,
    }
    assert answer["lanes"] == [{"agent": "agent", "target_tag": "agent", "trained": True, "calls": [0]}]
    assert answer["findings"] == [{"detector": "nonsense", "call": 0, "evidence": "odd"}]
    assert (answer["previous"], answer["next"]) == ("train/1/a/0", "train/1/a/2")


def test_an_episode_that_is_not_there_says_so(ask: Ask) -> None:
    with pytest.raises(Missing, match="there is no episode 'train/9/a/0' in this run"):
        ask("/episode", id="train/9/a/0")


def test_a_path_has_its_tokens(ask: Ask) -> None:
    stream = ask("/stream", id="train/1/a/0")
    assert [(one["start"], one["end"], one["kind"]) for one in stream["segments"]] == [(0, 2, "prompt"), (2, 5, "output")]
    recorded = {one["name"]: one["recorded"] for one in stream["measures"]}
    assert (recorded["logprob"], recorded["mismatch"], recorded["entropy"]) == (True, False, False)
    assert stream["worst"]["logprob"][0]["index"] == 3
    tokens = ask("/tokens", id="train/1/a/0", chunk=0)
    assert (tokens["ids"], tokens["kinds"]) == ([5, 6, 7, 8, 2], [0, 0, 1, 1, 1])
    assert tokens["values"]["logprob"] == [None, None, -0.1, -1.2346, -3e-08]
    assert len(tokens["texts"]) == 5


def test_a_task_is_shown_over_the_steps(
    ask: Ask, record: Path, groups: list[Group], store: Callable[[Path, list[Group]], None]
) -> None:
    answer = ask("/task", task="a")
    assert [(one["split"], one["step"], one["reward_mean"]) for one in answer["plays"]] == [("train", 1, 0.5)]
    assert [one["answer"] for one in answer["plays"][0]["episodes"]] == ["3", "3", "3"]
    assert (answer["previous"], answer["next"], answer["checkpoints"]) == (None, "b", [1])
    tasks = ask("/tasks", limit=2)
    assert ([one["task"] for one in tasks["tasks"]], tasks["total"], tasks["next"]) == (["a", "b"], 3, "b")
    assert [one["task"] for one in ask("/tasks", after="b")["tasks"]] == ["c"]


def test_numbers_that_are_not_finite_are_null() -> None:
    assert encode_answer({"a": [float("nan"), float("inf")], "b": "\ud800"}) == b'{"a":[null,null],"b":"?"}'


def test_a_run_without_most_of_its_files_is_shown(record: Path, ask: Ask) -> None:
    for name in ("run.json", "state.json", "config.yaml"):
        (record / "first" / name).unlink()
    (record / "first" / "metrics.jsonl").write_text("{broken\n")
    library = Library([record])
    (row,) = list_runs(library, Parameters())["runs"]
    assert (row["episodes"], row["backbone"], row["last_reward"]) == (7, None, None)
    assert any("metrics.jsonl:1" in text for text in list_runs(library, Parameters())["problems"])


def test_a_damaged_line_is_named(record: Path, ask: Ask) -> None:
    file = record / "first" / "episodes" / "train.jsonl"
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"repeat":1,"split"', b'"repeat":7,"split"', 1))
    from astuner_logview.errors import Unanswerable

    with pytest.raises(Unanswerable, match="damaged or no longer there"):
        ask("/episode", id="train/1/a/1")


def test_nothing_in_a_run_is_changed(record: Path, library: Library, ask: Ask) -> None:
    def look() -> dict[str, tuple[int, int]]:
        files = sorted((record / "first").rglob("*"))
        return {str(file): (file.stat().st_mtime_ns, file.stat().st_size) for file in files}

    before = look()
    for address in ("", "/metrics", "/waterfall", "/steps", "/episodes", "/tasks", "/judge"):
        ask(address)
    list_runs(library, Parameters())
    assert look() == before


def _reply(group: Group, *, step: int, contents: list[str]) -> Group:
    """Return the group in another step, with these replies."""
    episodes = []
    for one, content in zip(group.episodes, contents, strict=True):
        calls = tuple(evolve(call, reply={"role": "assistant", "content": content}) for call in one.calls)
        episodes.append(evolve(one, step=step, id=f"train/{step}/{group.task.task_id}/{one.repeat}", calls=calls))
    return evolve(group, step=step, episodes=tuple(episodes))
