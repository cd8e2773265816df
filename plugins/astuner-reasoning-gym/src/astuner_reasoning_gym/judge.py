"""The judge `reasoning_gym`: the score of an answer by the puzzle's family."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from secrets import token_hex
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le

from astuner.contract.errors import DataError, PluginError
from astuner.contract.schema import Task, Verdict, WorkflowOutput, WorkflowTask
from astuner.model.reasoning import split_thought
from astuner_judges.json_child import JsonChild
from astuner_reasoning_gym.program import is_installed, make_program

_KEY = "reasoning_gym"
"""Where the reader of the same name stores what scoring a puzzle needs."""


def _check_tag_name(_: Any, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and re.fullmatch(r"\w+", value) is None:
        raise ValueError(f"'{attribute.name}' is a name such as answer, without brackets: {value!r}")


class ReasoningGymJudge:
    """Scores answers to tasks of the reader `reasoning_gym`, from 0 to 1, in child processes.

    A missing answer is worth 0, and so is one over which the scorer fails or hangs while it can score the puzzle's own answer.
    Otherwise a scorer that fails or hangs raises.
    """

    @frozen(kw_only=True)
    class Options:
        """Options of the judge `reasoning_gym`."""

        final_answer_key: str = "final_answer"
        """Where the workflow's output metadata holds its answer."""
        answer_tag: str | None = field(default="answer", validator=_check_tag_name)
        """Read the answer from the last <answer>…</answer>, if there is one; null takes the text as it is."""
        success_threshold: float = field(default=1.0, validator=and_(gt(0), le(1)))
        """Score from which an answer is right: some families give partial scores."""
        timeout_s: float = field(default=10.0, validator=gt(0))
        """Longest time for one score. Past it the puzzle's own answer is scored, and if that works, the answer once more."""
        processes: int = field(default=2, validator=ge(1))
        """How many scores are computed at the same time."""

    def __init__(self, options: Options | None = None, children: Sequence[JsonChild] = ()) -> None:
        """Shared `children` are not ended by `close`; by default this judge has its own."""
        self._options = options or self.Options()
        if not is_installed():
            raise PluginError("judge 'reasoning_gym' needs the package reasoning-gym: pip install \"astuner-reasoning-gym\"")
        scorer = make_program(self._options.timeout_s)
        self._own = () if children else tuple(JsonChild(scorer) for _ in range(self._options.processes))
        self._idle: SimpleQueue[JsonChild] = SimpleQueue()
        for child in children or self._own:
            self._idle.put(child)
        tag = self._options.answer_tag
        self._tagged = None if tag is None else re.compile(rf"<{tag}>(.*?)</{tag}>", re.DOTALL)

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Return the score, and whether it reaches the threshold. Thread-safe; core calls it off the event loop."""
        task = workflow_task.task
        source = task.metadata.get(_KEY)
        if not isinstance(source, Mapping) or "entry" not in source:
            raise DataError(
                f"judge 'reasoning_gym': task '{task.task_id}' has no puzzle in metadata['{_KEY}'] (there are: "
                f"{', '.join(task.metadata) or 'none'}); it judges tasks of the reader reasoning_gym, as that yields them"
            )
        answer = self._answer(workflow_output.metadata.get(self._options.final_answer_key))
        if answer is None:
            return Verdict(0.0, False, rationale="no answer was given")
        try:
            found = self._score(task, answer)
        except (TimeoutError, RuntimeError):
            # Some families evaluate an answer as Python: a policy must not avoid a 0 by one that never ends.
            if not self._can_score_own_answer(task):
                raise
            found = self._score_again(task, answer)
        score = float(found["score"])
        unreadable = found.get("unreadable")
        rationale = f"the scorer could not read the answer: {unreadable}" if unreadable else None
        return Verdict(score, score >= self._options.success_threshold, rationale=rationale)

    def close(self) -> None:
        """End the child processes."""
        for child in self._own:
            child.close()

    def _score(self, task: Task, answer: str) -> Mapping[str, Any]:
        token = token_hex(8)
        found = self._ask({"score": {"source": dict(task.metadata[_KEY]), "answer": answer, "token": token}}, token)
        if "error" in found:
            raise RuntimeError(f"reasoning-gym cannot score task '{task.task_id}': {found['error']}")
        return found

    def _can_score_own_answer(self, task: Task) -> bool:
        own = task.metadata[_KEY]["entry"].get("answer")
        if not isinstance(own, str):
            return False
        try:
            self._score(task, own)
        except (TimeoutError, RuntimeError):
            return False
        return True

    def _score_again(self, task: Task, answer: str) -> Mapping[str, Any]:
        """Score an answer once more; one over which the scorer fails a second time is unreadable."""
        try:
            return self._score(task, answer)
        except (TimeoutError, RuntimeError) as error:
            return {"score": 0.0, "unreadable": f"{type(error).__name__}: {error}"}

    def _ask(self, question: Mapping[str, Any], token: str | None = None) -> Mapping[str, Any]:
        child = self._idle.get()
        try:
            found = child.ask(question, self._options.timeout_s)
            if "error" not in found and found.get("token") != token:
                child.restart()
                raise RuntimeError("an answer wrote a score of its own")
            return found
        finally:
            self._idle.put(child)

    def _answer(self, given: Any) -> str | None:
        """Return the answer as text, without the reasoning before it; None if there is none."""
        if given is None:
            return None
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise DataError(
                f"judge 'reasoning_gym': an answer is a text or a number, not {type(given).__name__}: {str(given)[:80]!r}"
            )
        text = split_thought(str(given))[1]
        tagged = self._tagged.findall(text) if self._tagged is not None else []
        return (tagged[-1] if tagged else text).strip() or None
