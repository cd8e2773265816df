"""Messages to text to token ids and back, as the model's own chat template has it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from astuner.errors import AstunerError
from astuner.gateway.errors import bad_request
from astuner.gateway.messages import arguments_of
from astuner.gateway.parsing import HermesParser, ReplyParser

if TYPE_CHECKING:
    from astuner.schema import Ids, Message

PROBE = "qzprobe"
"""A word that no template contains."""

LONGEST_CACHED = 1 << 15
"""Characters of a text whose ids are kept."""


class Renderer(Protocol):
    """The seam between messages and ids. One per gateway, shared by all episodes."""

    @property
    def turn_ends(self) -> Mapping[int, str]:
        """The token ids that end an assistant turn, with their text."""
        ...

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation, with the header of the next answer if `generate`.

        Raises ApiError (400) when the template refuses the messages or would lose one.
        """
        ...

    def encode(self, text: str) -> Ids:
        """Return the ids of a text; special tokens in it become their ids, and none is added. The array is read-only."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        ...

    def parser(self, prompt: str, *, tools: bool, parallel: bool) -> ReplyParser:
        """Return a parser for the answer to a rendered prompt."""
        ...


class TemplateRenderer:
    """Renders through the chat template of a Hugging Face tokenizer.

    What a template does not know is put where the model still sees it: tool calls into the text of the assistant,
    tool results into a user message. A message that would vanish all the same is refused.
    """

    def __init__(self, tokenizer: Any, turn_ends: Sequence[int] = ()) -> None:
        """`tokenizer` is a `transformers` tokenizer with a chat template; `turn_ends` adds to the ends found in it."""
        if not getattr(tokenizer, "chat_template", None):
            raise AstunerError(
                f"model.path: the tokenizer of '{getattr(tokenizer, 'name_or_path', '')}' has no chat template, so messages "
                "cannot become tokens. Use an instruct model, or add a chat_template.jinja beside its tokenizer."
            )
        self.tokenizer = tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._backend = backend if backend is not None and hasattr(backend, "encode") else None
        # The siblings of a group start from the same prompt.
        self._encode_cached: Callable[[str], Ids] = lru_cache(maxsize=256)(self._encode)
        self._turn_ends = {**self._find_turn_ends(), **{number: self.decode((number,)) for number in turn_ends}}
        self._inline_calls = not self._shows(
            [_USER, {"role": "assistant", "content": "", "tool_calls": [_call(PROBE)]}, _TOOL, _USER], PROBE
        )
        self._tools_as_user = not self._shows([_USER, _assistant(self._inline_calls), {**_TOOL, "content": PROBE}], PROBE)

    @property
    def turn_ends(self) -> Mapping[int, str]:
        """The tokenizer's end-of-sequence token and the end-of-turn tokens that its template writes."""
        return self._turn_ends

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation; see `Renderer`."""
        try:
            text = self._apply(self._prepared(messages), tools, generate, kwargs)
        except Exception as error:  # noqa: BLE001 - a template is code of the model's author and raises what it likes
            raise bad_request(f"The model's chat template refuses these messages: {error}", "messages") from None
        try:
            text.encode()
        except UnicodeEncodeError:
            raise bad_request("'messages' hold half a surrogate pair, which no tokenizer can encode.", "messages") from None
        _refuse_losses(messages, text)
        return text

    def encode(self, text: str) -> Ids:
        """Return the ids of a text; see `Renderer`."""
        return self._encode_cached(text) if len(text) <= LONGEST_CACHED else self._encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        if self._backend is not None:
            return str(self._backend.decode(ids, skip_special_tokens=False))
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def parser(self, prompt: str, *, tools: bool, parallel: bool) -> ReplyParser:
        """Return a parser of Hermes tool calls and `<think>` reasoning."""
        return HermesParser(tools=tools, parallel=parallel, thinking=prompt.rstrip().endswith("<think>"))

    def _encode(self, text: str) -> Ids:
        if self._backend is not None:
            ids = np.asarray(self._backend.encode(text, add_special_tokens=False).ids, dtype=np.int32)
        else:
            ids = np.asarray(self.tokenizer.encode(text, add_special_tokens=False), dtype=np.int32)
        ids.setflags(write=False)
        return ids

    def _apply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                messages, tools=list(tools) or None, add_generation_prompt=generate, tokenize=False, **kwargs
            )
        )

    def _prepared(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        prepared: list[dict[str, Any]] = []
        for message in messages:
            if message["role"] == "tool" and self._tools_as_user:
                text = f"<tool_response>\n{message['content']}\n</tool_response>"
                # Templates that insist on alternating roles take parallel results as one message.
                if prepared and prepared[-1].get("results"):
                    prepared[-1]["content"] += f"\n{text}"
                else:
                    prepared.append({"role": "user", "content": text, "results": True})
            elif message.get("tool_calls"):
                prepared.append(self._with_calls(message))
            else:
                prepared.append(dict(message))
        return prepared

    def _with_calls(self, message: Message) -> dict[str, Any]:
        calls = [
            {**call, "function": {**call["function"], "arguments": arguments_of(call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
        if not self._inline_calls:
            return {**message, "tool_calls": calls}
        functions = [{key: call["function"][key] for key in ("name", "arguments")} for call in calls]
        blocks = [f"<tool_call>\n{json.dumps(function, ensure_ascii=False)}\n</tool_call>" for function in functions]
        content = "\n".join([message["content"], *blocks] if message["content"] else blocks)
        return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": content}

    def _shows(self, messages: Sequence[Message], word: str) -> bool:
        try:
            return word in self._apply(messages, (), False, {})
        except Exception:  # noqa: BLE001 - the template refuses what is tried here, which is the answer
            return False

    def _find_turn_ends(self) -> dict[int, str]:
        """Collect the special tokens that follow an assistant's text in the template, and the end-of-sequence token."""
        specials = {str(token): int(number) for number, token in self.tokenizer.added_tokens_decoder.items()}
        found = set()
        try:
            text = self._apply([_USER, {"role": "assistant", "content": PROBE}, _USER], (), False, {})
        except Exception as error:
            raise AstunerError(
                f"model.path: the chat template of '{self.tokenizer.name_or_path}' cannot render a user and an assistant "
                f"message: {error}. Repair its chat_template."
            ) from error
        after = text.partition(PROBE)[2].lstrip()
        first = max((token for token in specials if after.startswith(token)), key=len, default=None)
        if first is not None:
            found.add(first)
        if self.tokenizer.eos_token is not None:
            found.add(str(self.tokenizer.eos_token))
        # Some models end a turn that calls tools with another token than a plain answer (Llama's <|eom_id|>), and a model
        # that ends its text has nothing more to say.
        ends = r"<\|(eot_id|eom_id|im_end|return|call|endoftext|end_of_text)\|>"
        found.update(token for token in specials if re.fullmatch(ends, token))
        numbers = {token: specials.get(token, self.tokenizer.convert_tokens_to_ids(token)) for token in found}
        return {int(number): token for token, number in sorted(numbers.items()) if number is not None}


def load_renderer(model_path: str) -> TemplateRenderer:
    """Load the tokenizer of a model, a local folder or a hub id, with the ends that its generation configuration names."""
    from transformers import AutoTokenizer, GenerationConfig

    try:
        tokenizer = AutoTokenizer.from_pretrained(model_path)
    except (OSError, ValueError) as error:
        raise AstunerError(f"model.path: no tokenizer could be loaded from '{model_path}': {error}") from error
    try:
        ends = GenerationConfig.from_pretrained(model_path).eos_token_id
    except (OSError, ValueError):
        # A model need not have this file; its tokenizer and template say how a turn ends.
        ends = None
    return TemplateRenderer(tokenizer, [ends] if isinstance(ends, int) else ends or ())


_USER: Mapping[str, Any] = {"role": "user", "content": "x"}
_TOOL: Mapping[str, Any] = {"role": "tool", "content": "x", "tool_call_id": "123456789", "name": "x"}


def _call(name: str) -> dict[str, Any]:
    return {"id": "123456789", "type": "function", "function": {"name": name, "arguments": {}}}


def _assistant(inline: bool) -> dict[str, Any]:
    return {"role": "assistant", "content": "x"} if inline else {"role": "assistant", "content": "", "tool_calls": [_call("x")]}


def _refuse_losses(messages: Sequence[Message], text: str) -> None:
    """Refuse a rendering in which the text of a message is missing."""
    reached = 0
    for number, message in enumerate(messages):
        content = message["content"].strip()
        if message["role"] == "assistant":
            # A template may strip old reasoning, and the text beside tool calls; an answer itself must stay.
            content = "" if message.get("tool_calls") else content.rpartition("</think>")[2].strip()
        if not content:
            continue
        place = text.find(content, reached)
        if place >= 0:
            reached = place
        elif content not in text and json.dumps(content, ensure_ascii=False)[1:-1] not in text:
            raise bad_request(
                f"The model's chat template drops messages[{number}] (role {message['role']}), so the model would never see it.",
                f"messages[{number}]",
            )
