"""What the reflection LLM is shown of the episodes of a batch, and how it is asked for a better prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import RunFailed
from astuner.contract.schema import Call, Episode, Group, Message
from astuner.episodes.transcript.episode_text import format_outcome
from astuner.shared.clients import LLMFailed

if TYPE_CHECKING:
    from astuner.contract.protocols import Control
    from astuner.shared.clients import LLMClient
    from astuner_gepa.options import Reflection
    from astuner_gepa.search import Proposal

LONGEST = 4000
"""Characters of one message that are shown."""


def make_records(
    groups: Sequence[Group], agents: Sequence[str], options: Reflection, hide: Callable[[str], str]
) -> dict[str, list[dict[str, Any]]]:
    """Return what each agent did in the worst episodes, and what came of it; `hide` takes secrets out of what failed parts said.

    Of equal rewards the first repeats come first, so that many tasks are shown. An episode without a reward comes after all
    others: nothing says whether the prompt was to blame.
    """
    found = [(episode, group.task.metadata) for group in groups for episode in group.episodes]
    found.sort(key=lambda one: (one[0].reward is None, one[0].reward or 0.0, one[0].repeat))
    records: dict[str, list[dict[str, Any]]] = {agent: [] for agent in agents}
    for episode, metadata in found:
        for agent, own in records.items():
            if len(own) < options.examples and (said := _format_conversation(episode, agent)):
                shown = {name: str(metadata[name]) for name in options.show if name in metadata}
                task, feedback = _shorten(episode.task.main_query), hide(_judge(episode))
                own.append({"Task": task, **shown, "Conversation": said, "Feedback": feedback})
    return records


def format_question(proposal: Proposal) -> str:
    """Return GEPA's own prompt for a proposal."""
    from gepa.strategies.instruction_proposal import InstructionProposalSignature

    given = {"current_instruction_doc": proposal.text, "dataset_with_feedback": list(proposal.records), "prompt_template": None}
    return str(InstructionProposalSignature.prompt_renderer(given))


def read_text(answer: str) -> str:
    """Return the text that an answer proposes, as GEPA reads it: what stands between the first and the last three backticks.

    Empty for an answer without them: it is a remark, and no prompt.
    """
    from gepa.strategies.instruction_proposal import InstructionProposalSignature

    return InstructionProposalSignature.output_extractor(answer)["new_instruction"] if "```" in answer else ""


class ReflectionLLM:
    """Asks, and can be interrupted by the end of the run."""

    def __init__(self, client: LLMClient, options: Reflection, control: Control) -> None:
        """Ask nothing yet."""
        self._client, self._options, self._control = client, options, control
        self._asking: tuple[asyncio.AbstractEventLoop, asyncio.Task[str]] | None = None
        control.on_stop(self._cancel)

    def ask(self, question: str) -> str | None:
        """Return the answer; None when the user has stopped the run.

        Raises `LLMBudgetSpent` at a limit, and `RunFailed` if no answer comes.
        """
        if self._control.stop:
            return None
        try:
            return asyncio.run(self._ask(question))
        except asyncio.CancelledError:
            if self._control.stop:
                return None
            raise
        except LLMFailed as failed:
            key = self._options.api_key_env
            where = "" if key is None else f" (its key comes from the environment variable {key})"
            raise RunFailed(
                f"gepa.reflection: no answer{where}: {failed}\nOnce the cause is mended, continue with --resume", resumable=True
            ) from failed

    def close(self) -> None:
        """Close the cache of answers."""
        self._client.close()

    async def _ask(self, question: str) -> str:
        messages = [{"role": "user", "content": question}]
        task = asyncio.ensure_future(self._client.ask(messages, max_tokens=self._options.max_tokens))
        self._asking = asyncio.get_running_loop(), task
        try:
            return await task
        finally:
            self._asking = None

    def _cancel(self) -> None:
        if (asking := self._asking) is not None:
            with suppress(RuntimeError):  # its loop has just ended
                asking[0].call_soon_threadsafe(asking[1].cancel)


def _judge(episode: Episode) -> str:
    failures = "".join(f"\n{failure.reason}: {failure.detail}" for failure in episode.failures if not failure.retried)
    return _shorten(f"{format_outcome(episode)}{failures}")


def _format_conversation(episode: Episode, agent: str) -> str:
    """Return what an agent was told and said, without the system messages, which hold the prompt."""
    return "\n\n".join(_iterate_messages([call for call in episode.calls if call.agent == agent]))


def _iterate_messages(calls: Sequence[Call]) -> Iterator[str]:
    said: list[Message] = []
    for call in calls:
        # A call without a parent holds its conversation from the first message on: what was shown before is left out.
        known = 0
        if call.parent is None:
            while known < min(len(said), len(call.messages)) and _is_same(said[known], call.messages[known]):
                known += 1
            said = [*call.messages, call.reply]
        for message in (*call.messages[known:], call.reply):
            if message and message.get("role") != "system":
                yield f"{message.get('role', 'assistant')}: {_shorten(_format_content(message))}"


def _is_same(one: Message, other: Message) -> bool:
    return all((one.get(key) or None) == (other.get(key) or None) for key in ("content", "tool_calls"))


def _format_content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return "\n".join([*([content] if content else []), *(f"{call['name']}({_dump(call['arguments'])})" for call in calls)])


def _dump(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text) - LONGEST} more characters)"
