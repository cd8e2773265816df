"""Shows a model the conversation without its earlier reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from astuner.contract.protocols import ContextRoom, EpisodeIdentity, Tracked, TrackerTraits
from astuner.contract.schema import Call, Message
from astuner.contract.token_streams import Stretch
from astuner.episodes.builtin.trackers.path_rows import accept_every_answer, count_untrained, make_sample
from astuner.episodes.builtin.trackers.thinking import find_last_boxed, strip_reasoning, strip_thinking
from astuner.episodes.builtin.trackers.timeline import take_path_rows


class LinearThinkTracker:
    """Reasoning is part of its answer, but of no later prompt.

    A turn that reasoned is therefore followed by a new branch; samples are the paths of the tree, as those of `timeline`.
    """

    traits = TrackerTraits(manages_context=True)

    @frozen(kw_only=True)
    class Options:
        """What the environment receives, and what is trained."""

        remove_think_before_submit_as_action: bool = False
        """Give the environment the answer without its reasoning."""
        extract_box_before_submit_as_action: bool = False
        r"""Give the environment only the content of the last `\boxed{…}`, if there is one."""
        train_history_infer_token: bool = True
        """Train every answer of a path; False trains the last one alone."""

    def __init__(self, options: Options | None = None) -> None:
        """Store the options."""
        self._options = options or self.Options()

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return one sample per path; on demand, answers before a path's last are untrained for the reason `history_answer`."""
        done: dict[int, int] = {}
        wanted = accept_every_answer if self._options.train_history_infer_token else _is_last_answer
        rows = take_path_rows(calls, done, wanted)
        return Tracked(
            samples=[make_sample(row, identity) for row in rows], untrained=count_untrained(calls, done, "history_answer")
        )

    async def view(self, messages: Sequence[Message], room: ContextRoom) -> Sequence[Message]:
        """Return all messages, without the reasoning of answers."""
        return [strip_reasoning(message) for message in messages]

    def action(self, reply: Message) -> Message:
        """Return the part of the reply that the environment receives."""
        if self._options.remove_think_before_submit_as_action:
            reply = strip_reasoning(reply)
        content = reply.get("content")
        if self._options.extract_box_before_submit_as_action and isinstance(content, str):
            boxed = find_last_boxed(strip_thinking(content))
            reply = reply if boxed is None else {**reply, "content": boxed}
        return reply


def _is_last_answer(part: Stretch, path: Sequence[Stretch]) -> bool:
    return part is next(other for other in reversed(path) if other.sampled)
