"""Reward functions of verl and TRL as they are: their arguments for one episode, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astuner.contract.plain_values import has_type, read_bool, read_number
from astuner.contract.schema import Episode, Verdict
from astuner.contract.user_values.named_arguments import ARGUMENTS, choose_arguments, list_unmet
from astuner.contract.user_values.outputs import find_numbers
from astuner.shared.tabular.original_row import restore_row


class VerlFunction:
    """Calls `compute_score(data_source, solution_str, ground_truth, extra_info)`.

    `solution_str` is the last answer of the model. `ground_truth` is the one of the column `reward_model`, or the column
    `ground_truth` or `answer`; the other two are columns.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function."""
        self.function, self._names = function, choose_arguments(function, ARGUMENTS["verl"])

    def list_arguments(self, episode: Episode) -> dict[str, Any]:
        """Return its arguments for an episode; raises `LookupError` if the task has no right answer and it needs one."""
        row = restore_row(episode.task)
        given = {
            "data_source": row.get("data_source") or "",
            "solution_str": find_last_answer(episode),
            "extra_info": row.get("extra_info") or {},
        }
        if "ground_truth" in self._names:
            given["ground_truth"] = _find_ground_truth(row)
        return {name: given[name] for name in self._names}

    def read_answer(self, answer: Any) -> Any:
        """Return a verdict for a dict with `score`, whose other numbers are components; any other answer as it is."""
        if not isinstance(answer, Mapping) or "score" not in answer:
            return answer
        others = {name: value for name, value in answer.items() if name != "score"}
        return Verdict(answer["score"], read_bool(answer.get("acc")), components=find_numbers(others))


class TrlFunction:
    """Calls `reward(completions, prompts, completion_ids, ..., **columns)` with lists of one.

    A completion is a list of one message, the last answer of the model; it is a text if the column `prompt` of the row is one.
    Each column of the row is an argument too, except `prompt` and `completion`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function."""
        self.function = function

    def list_arguments(self, episode: Episode) -> dict[str, Any]:
        """Return its arguments for an episode; raises `LookupError` if the row lacks a column."""
        row = restore_row(episode.task)
        text = find_last_answer(episode)
        as_text = isinstance(row.get("prompt"), str)
        prompt = row.get("prompt") or row.get("init_messages") or [{"role": "user", "content": episode.task.main_query}]
        given: dict[str, Any] = {name: [value] for name, value in row.items() if name not in ("prompt", "completion")}
        given |= {
            "prompts": [prompt],
            "completions": [text if as_text else [{"role": "assistant", "content": text}]],
            "completion_ids": [[int(one) for call in episode.calls[-1:] for one in call.output_ids]],
            "trainer_state": None,
            "log_extra": lambda column, values: None,
            "log_metric": lambda name, value: None,
        }
        if lacking := list_unmet(self.function, given):
            columns = ", ".join(sorted(row))
            raise LookupError(f"the row of task {episode.task.task_id!r} has no column {', '.join(lacking)}; it has {columns}")
        return {name: given[name] for name in choose_arguments(self.function, given)}

    def read_answer(self, answer: Any) -> Any:
        """Return the only item of the list that it returns."""
        if isinstance(answer, str) or read_number(answer) is not None or not isinstance(answer, Sequence) or len(answer) != 1:
            return answer
        return answer[0]


def find_last_answer(episode: Episode) -> str:
    """Return the text of the model's last answer; the output's `final_answer` if no call of a trained agent has one."""
    for call in reversed(episode.calls):
        if call.untrained != "frozen_agent" and isinstance(content := call.reply.get("content"), str):
            return content
    found = episode.output.metadata.get("final_answer") if episode.output is not None else None
    return "" if found is None else str(found)


def _find_ground_truth(row: Mapping[str, Any]) -> Any:
    model = row.get("reward_model")
    if has_type(model, dict) and "ground_truth" in model:
        return model["ground_truth"]
    for name in ("ground_truth", "answer"):
        if name in row:
            return row[name]
    raise LookupError(
        "the row has no right answer: neither reward_model.ground_truth nor a column ground_truth or answer; "
        f"it has {', '.join(sorted(row))}"
    )
