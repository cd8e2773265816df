"""An engine that answers from a script: for debugging a workflow, a judge or a plugin without any model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen, validators

from astuner.contract.errors import DataError, PluginError
from astuner.contract.protocols import EngineTraits, RunInfo
from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.shared.tabular.json_rows import read_json_rows

Reply = Callable[[str, Request], str]
"""Makes the answer to a prompt text."""

LOGPROB = -0.5
"""Of every token; any finite number would do."""

CHUNK_TOKENS = 8


@frozen(kw_only=True)
class ScriptLine:
    """One line of a script file."""

    match: re.Pattern[str]
    """Searched in the last message of the prompt."""
    reply: str


class ScriptedEngine:
    """Tokenises scripted replies as the model does, or as bytes without one; it has no weights, so training refuses it."""

    traits = EngineTraits(names_own_model=True)

    @frozen(kw_only=True)
    class Options:
        """Where the replies come from; a script line that matches overrides `replies`."""

        replies: tuple[str, ...] = ()
        """Answers to the first, second… call of each conversation; the last one answers all further calls."""
        script: str | None = None
        """A JSONL file of `{"match": REGEX, "reply": TEXT}`, relative to the YAML; the first line whose expression is
        found in the last message answers, and a line without `match` fits always."""
        delay_s: float = field(default=0.0, validator=validators.ge(0))
        """Pause before each few tokens."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        tokenizer: Any = None,
        model_path: str | None = None,
        script: Sequence[ScriptLine] = (),
        reply: Reply | None = None,
    ) -> None:
        """`tokenizer` (of transformers), or `model_path` to load it from if it is here; `reply` overrides the options."""
        self._options = options or self.Options()
        self._tokenizer = tokenizer
        self._model_path = model_path
        self._script = script
        self._reply = reply or self._find_reply
        self._calls: dict[str, int] = {}
        self._running = asyncio.Event()
        self._running.set()

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> ScriptedEngine:
        """Make the engine of a run: the model's tokenizer, and the script next to the YAML."""
        script = read_script(run_info.config_dir / options.script) if options.script is not None else ()
        if not script and not options.replies:
            raise PluginError("engine 'scripted': no replies. Set 'replies', or 'script' to a JSONL file.")
        return cls(options, model_path=run_info.config.model.path, script=script)

    @property
    def capabilities(self) -> Capabilities:
        """Ids and (made-up) logprobs, but no weights."""
        return Capabilities(reproducible=True)

    async def start(self) -> None:
        """Load the tokenizer."""
        if self._tokenizer is None:
            from astuner.model.rendering.byte_tokenizer import load_renderer_or_bytes

            self._tokenizer = (await asyncio.to_thread(load_renderer_or_bytes, self._model_path or "")).tokenizer

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the scripted answer, a few tokens at a time."""
        await self._running.wait()
        text = self._reply(self._tokenizer.decode(request.prompt_ids, skip_special_tokens=False), request)
        self._calls[request.session] = self._calls.get(request.session, 0) + 1
        ids, reason = self._encode(text, request)
        for start in range(0, max(len(ids), 1), CHUNK_TOKENS):
            if self._options.delay_s:
                await asyncio.sleep(self._options.delay_s)
            part = ids[start : start + CHUNK_TOKENS]
            last = start + CHUNK_TOKENS >= len(ids)
            yield Chunk(ids=part, logprobs=[LOGPROB] * len(part), finish_reason=reason if last else None)

    async def release(self, session: str) -> None:
        """Forget the position in a conversation."""
        self._calls.pop(session, None)

    async def update_weights(self, ref: Any, version: int) -> None:
        """Refuse: there are no weights."""
        raise PluginError("engine 'scripted': it has no weights to update; use it with the debug backbone.")

    async def pause(self) -> None:
        """Hold new requests back."""
        self._running.clear()

    async def resume(self) -> None:
        """Resume held requests."""
        self._running.set()

    async def close(self) -> None:
        """Forget all conversations."""
        self._calls.clear()

    def _encode(self, text: str, request: Request) -> tuple[list[int], Any]:
        sampling = request.sampling
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        if not any(number in sampling.stop_token_ids for number in ids) and self._tokenizer.eos_token_id is not None:
            ids.append(self._tokenizer.eos_token_id)
        end = next((place + 1 for place, number in enumerate(ids) if number in sampling.stop_token_ids), len(ids))
        return ids[: min(end, sampling.max_tokens)], "stop" if end <= sampling.max_tokens else "length"

    def _find_reply(self, prompt: str, request: Request) -> str:
        last = self._find_last_message(prompt, request)
        for line in self._script:
            if line.match.search(last):
                return line.reply
        replies = self._options.replies
        if not replies:
            raise PluginError(f"engine 'scripted': no line of the script matches the last message: {last.strip()[-200:]!r}")
        return replies[min(self._calls.get(request.session, 0), len(replies) - 1)]

    def _find_last_message(self, prompt: str, request: Request) -> str:
        """Return the text between the last two turn ends; the whole prompt if its template marks none."""
        ends = [self._tokenizer.decode((number,), skip_special_tokens=False) for number in request.sampling.stop_token_ids]
        turns = re.split("|".join(map(re.escape, ends)), prompt) if ends else [prompt]
        return turns[-2] if len(turns) > 1 else prompt


def read_script(path: Path) -> tuple[ScriptLine, ...]:
    """Read a script file; raises DataError naming the invalid line."""
    if not path.is_file():
        raise DataError(f"{path}: no such script file; see engine 'scripted', option 'script'.")
    lines = []
    for row in read_json_rows(path):
        try:
            lines.append(ScriptLine(match=re.compile(row.values.get("match", "")), reply=row.values["reply"]))
        except (re.error, KeyError, TypeError) as error:
            raise DataError(f'{row.place}: expected {{"match": REGEX, "reply": TEXT}}: {error!r}') from error
    return tuple(lines)
