"""The filter `llm_evaluate`: an LLM says whether a recorded turn is a good task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from attrs import evolve, field, frozen
from attrs.validators import ge, optional

from astuner.contract.errors import DataError
from astuner.shared.clients import (
    AnswerMalformed,
    LLMBudgetSpent,
    LLMClient,
    LLMFailed,
    LLMOptions,
    ask_for_json,
    fence,
    run_blocking,
)
from astuner_tracing.counts import Tally
from astuner_tracing.tasks import Candidate

_AT_ONCE = 8
"""Questions prepared per slot for requests."""
_LONGEST = 20_000
"""Most characters of one text that the LLM sees; the middle of a longer one is cut out."""


@frozen(kw_only=True)
class LlmEvaluateParams:
    """Options of the filter `llm_evaluate`."""

    custom_rubrics: str = ""
    """Further reasons to reject a task, in words."""
    language: Literal["en", "zh"] = "en"
    """Language of the prompt."""
    unjudged: Literal["leave_out", "keep"] = "leave_out"
    """What happens to a task without a verdict. It is counted in either case."""
    max_tokens: int | None = field(default=None, validator=optional(ge(1)))
    """Most tokens of a verdict; the reader's `alien_llm_response_length` when null."""
    llm: LLMOptions = field(factory=LLMOptions)
    """How the LLM is asked; the reader's `alien_llm_model` when it names none."""
    temperature: float | None = field(default=None, validator=optional(ge(0)))
    """Another place for `llm.temperature`."""
    max_thread: int | None = field(default=None, validator=optional(ge(1)))
    """Another place for `llm.concurrency`."""
    print_reason: bool = False
    """Log the reason of each rejection."""


@frozen(kw_only=True)
class LlmAccess:
    """What the reader gives to a filter that asks an LLM."""

    model: str
    max_tokens: int
    config_dir: Path
    environ: Mapping[str, str]
    say: Callable[[str], None]
    cache: Path | None = None
    """Where verdicts are stored if the options name no file."""
    allowed: bool = True
    """Whether it may be asked: a preview must not cost anything."""


@frozen(kw_only=True)
class Opinion:
    """The form of the LLM's answer."""

    accept: bool
    reason: str = ""


class LlmEvaluate:
    """Asks about each task, several at once. A failure is not a verdict."""

    best_first = False

    def __init__(self, params: LlmEvaluateParams, asking: LlmAccess) -> None:
        self._params, self._asking = params, asking
        self._client = _client(params, asking) if asking.allowed else None

    def choose_left_out(self, tasks: Iterator[tuple[int, Candidate]], tally: Tally) -> Iterator[tuple[int, None]]:
        """Yield the numbers of the tasks to leave out. Raises `DataError` when the LLM gave no verdict on any task."""
        if self._client is None:
            tally.unjudged["no LLM is asked to see what a run would take"] += sum(1 for _ in tasks)
            return
        judged, last = 0, ""
        size = _AT_ONCE * (self._params.max_thread or self._params.llm.concurrency)
        try:
            while some := list(islice(tasks, size)):
                for (number, task), opinion in zip(some, run_blocking(self._ask_all(self._client, some)), strict=True):
                    if isinstance(opinion, Opinion):
                        judged += 1
                        if not opinion.accept:
                            self._tell(task, opinion)
                            yield number, None
                        continue
                    last = str(opinion)
                    tally.unjudged[_classify_failure(opinion)] += 1
                    if self._params.unjudged == "leave_out":
                        yield number, None
        finally:
            self._client.close()
        if last and not judged:
            raise DataError(f"filter llm_evaluate: no task got a verdict; the last failure: {last}")

    async def _ask_all(
        self, client: LLMClient, some: Sequence[tuple[int, Candidate]]
    ) -> list[Opinion | LLMFailed | LLMBudgetSpent]:
        return await asyncio.gather(*(self._ask(client, task) for _, task in some))

    async def _ask(self, client: LLMClient, task: Candidate) -> Opinion | LLMFailed | LLMBudgetSpent:
        messages = [
            {"role": "system", "content": _prompt(self._params.language, self._params.custom_rubrics.strip())},
            {"role": "user", "content": _format_task(task)},
        ]
        try:
            opinion, _ = await ask_for_json(
                client, messages, Opinion, max_tokens=self._params.max_tokens or self._asking.max_tokens
            )
        except (LLMFailed, LLMBudgetSpent) as failure:
            return failure
        return opinion

    def _tell(self, task: Candidate, opinion: Opinion) -> None:
        if self._params.print_reason:
            self._asking.say(f"llm_evaluate leaves out {task.query[:80]!r}: {opinion.reason}")


def _client(params: LlmEvaluateParams, asking: LlmAccess) -> LLMClient:
    llm = evolve(
        params.llm,
        temperature=params.llm.temperature if params.temperature is None else params.temperature,
        concurrency=params.llm.concurrency if params.max_thread is None else params.max_thread,
        cache=params.llm.cache or (str(asking.cache) if asking.cache is not None else None),
    )
    return llm.make_client("the filter llm_evaluate", model=asking.model, config_dir=asking.config_dir, environ=asking.environ)


@cache
def _prompt(language: str, rubrics: str) -> str:
    text = (files("astuner_tracing.filters") / "prompts" / f"evaluate_{language}.txt").read_text(encoding="utf-8")
    return text.format(rubrics=rubrics + "\n" if rubrics else "").strip()


def _format_task(task: Candidate) -> str:
    parts: list[tuple[str, Any]] = [(message["role"], message["content"]) for message in task.init_messages]
    parts += [("question", task.query), ("answer", task.reference or task.answer or "(none)")]
    return "\n".join(fence(_cut(str(text)), name) for name, text in parts)


def _cut(text: str) -> str:
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}\n[…]\n{text[-half:]}"


def _classify_failure(failure: LLMFailed | LLMBudgetSpent) -> str:
    if isinstance(failure, LLMBudgetSpent):
        return "the LLM's budget is spent"
    return "no verdict" if isinstance(failure, AnswerMalformed) else "the LLM failed"
