"""Reward functions of verl and TRL as they are: their arguments for one episode, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astuner.contract.plain_values import has_type, read_bool, read_number
from astuner.contract.schema import Episode, Task, Verdict
from astuner.contract.user_values.named_arguments import ARGUMENTS, choose_arguments, list_unmet
from astuner.contract.user_values.outputs import find_numbers
from astuner.shared.tabular.original_row import restore_row

OF_EPISODE = ("completions", "completion_ids")
"""What a function of TRL is given of the episode; the task gives all else."""


class VerlFunction:
    """Calls `compute_score(data_source, solution_str, ground_truth, extra_info)`.

    `solution_str` is the last answer of the model. `ground_truth` is the one of the column `reward_model`, or the column
    `ground_truth` or `answer`; the other two are columns.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function."""
        self.function, self._names = function, choose_arguments(function, ARGUMENTS["verl"])

    def read_columns(self, task: Task) -> dict[str, Any]:
        """Return the arguments that a task gives; raises `LookupError` if it has no right answer and the function needs one."""
        row = restore_row(task)
        given = {"data_source": row.get("data_source") or "", "extra_info": row.get("extra_info") or {}}
        model = row.get("reward_model")
        places = [model if has_type(model, dict) else {}, row, {"ground_truth": row["answer"]} if "answer" in row else {}]
        given |= next(({"ground_truth": place["ground_truth"]} for place in places if "ground_truth" in place), {})
        if list_unmet(self.function, (*given, "solution_str")):
            raise LookupError(
                "the row has no right answer: neither reward_model.ground_truth nor a column ground_truth or answer; "
                f"it has {', '.join(sorted(row))}"
            )
        return given

    def list_arguments(self, episode: Episode) -> dict[str, Any]:
        """Return its arguments for an episode; raises `LookupError` as `read_columns` does."""
        given = {**self.read_columns(episode.task), "solution_str": find_last_answer(episode)}
        return {name: given[name] for name in self._names if name in given}

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

    def read_columns(self, task: Task) -> dict[str, Any]:
        """Return the arguments that a task gives; raises `LookupError` if its row lacks a column that the function needs."""
        row = restore_row(task)
        given: dict[str, Any] = {name: [value] for name, value in row.items() if name not in ("prompt", "completion")}
        prompt = row.get("prompt") or row.get("init_messages") or [{"role": "user", "content": task.main_query}]
        given |= {"prompts": [prompt], "trainer_state": None, "log_extra": _log_nothing, "log_metric": _log_nothing}
        if lacking := list_unmet(self.function, (*given, *OF_EPISODE)):
            raise LookupError(f"the row has no column {', '.join(lacking)}; it has {', '.join(sorted(row))}")
        return given

    def list_arguments(self, episode: Episode) -> dict[str, Any]:
        """Return its arguments for an episode; raises `LookupError` as `read_columns` does."""
        text, given = find_last_answer(episode), self.read_columns(episode.task)
        as_text = isinstance(given["prompts"][0], str)
        given["completions"] = [text if as_text else [{"role": "assistant", "content": text}]]
        given["completion_ids"] = [[int(one) for call in episode.calls[-1:] for one in call.output_ids]]
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


def _log_nothing(*_: Any) -> None:
    """Stand in for the trainer's log."""
