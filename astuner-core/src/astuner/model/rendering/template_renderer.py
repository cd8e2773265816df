"""Messages to text to token ids and back, through the model's own chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve

from astuner.contract.errors import AstunerError
from astuner.model.rendering.compiled_template import CompiledTemplate
from astuner.model.rendering.encoding import LongText, PartwiseEncoder
from astuner.model.rendering.errors import ApiError, bad_request
from astuner.model.rendering.losses import describe_losses, describe_tool_losses
from astuner.model.rendering.reply_parser import Style
from astuner.model.rendering.round_trip import TOOLS, WrittenAnswer, fit, recognise, write_answers
from astuner.model.rendering.shape_probes import PROBE, USER, find_shape
from astuner.model.rendering.template_shape import TemplateShape
from astuner.model.rendering.tokenizers import generation_ends, load_tokenizer
from astuner.model.rendering.tool_calls import STYLES
from astuner.model.rendering.tool_calls.styles import MakeParser
from astuner.model.rendering.tool_prompt import make_call_writer, reads_back

if TYPE_CHECKING:
    from astuner.contract.schema import Ids, Message
    from astuner.model.rendering.reply_parser import ReplyParser


LONGEST_CACHED = 1 << 15
"""Longest text, in characters, whose ids are cached; longer ones are encoded outside of an event loop."""

_SYSTEM_PLACES: Mapping[str, Mapping[str, Any]] = {
    "auto": {},
    "template": {"many_systems": True, "late_systems": True},
    "user": {"late_systems": False},
}
"""What `late_system_messages` says of a template, whatever the template shows."""


class TemplateRenderer:
    """Renders through the chat template of a Hugging Face tokenizer. One per gateway, shared by all episodes.

    Unsupported parts are moved to where the model still sees them: tools into the system message, tool calls into the
    text of the assistant, tool results and later system messages into user messages. A message that would still vanish is
    refused.
    """

    def __init__(
        self,
        tokenizer: Any,
        turn_ends: Sequence[int] = (),
        *,
        chat_template: str | None = None,
        tool_call_format: str = "auto",
        reasoning: str = "auto",
        tools_in_prompt: str = "auto",
        late_system_messages: str = "auto",
        unclosed_calls: str = "text",
        streamed_calls: str = "whole",
        source: str | None = None,
    ) -> None:
        """`tokenizer` is a `transformers` tokenizer with a chat template; `turn_ends` adds to the ends found in it.

        `chat_template` replaces that of the tokenizer, which then saves it too.
        `tool_call_format` names a style of `tool_calls.STYLES`; `auto` is the one in which the template writes calls.
        The other options are the configuration's keys of these names.
        """
        self._key = "model.path" if chat_template is None else "model.chat_template"
        if chat_template is not None:
            tokenizer.chat_template = chat_template
        self._check(tokenizer)
        self.tokenizer = tokenizer
        self.source = source
        """The folder or hub id that it was loaded from, for processes that load it again; None if it was made otherwise."""
        self._template = CompiledTemplate(tokenizer)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._backend = backend if backend is not None and hasattr(backend, "encode") else None
        self._in_parts = None if self._backend is None else PartwiseEncoder(self._backend, tokenizer.added_tokens_decoder)
        # The siblings of a group start from the same prompt.
        self._encode_cached: Callable[[str], Ids] = lru_cache(maxsize=256)(self._encode)
        self.specials: Mapping[str, int] = {str(word): int(number) for number, word in tokenizer.added_tokens_decoder.items()}
        self._frames: tuple[str, ...] = ()
        self._shows_reasoning: dict[tuple[bool | str, ...], bool] = {}
        self.needs_tools = False
        """Whether the template refuses conversations without tools."""
        found = self._find_ends()
        # A message of gpt-oss ends with <|end|> after each channel; only the other two end its turn.
        inner = {"<|end|>"} if {"<|channel|>", "<|return|>"} <= self.specials.keys() else set()
        ends = {**found, **{number: self.decode((number,)) for number in turn_ends}}
        # A generation configuration may name ids that the tokenizer does not have, and that have no text.
        self.closers: Mapping[int, str] = {number: word for number, word in ends.items() if word}
        """The token ids that close an answer in a rendered conversation, with their text."""
        self.turn_ends: Mapping[int, str] = {number: word for number, word in ends.items() if word not in inner}
        """The token ids with which the model ends its turn, with their text: generation stops at them."""
        least = TOOLS if self.needs_tools else ()
        shape = find_shape(lambda messages, *, tools=(), generate=False: self._apply(messages, tools or least, generate, {}))
        self.shape: TemplateShape = evolve(shape, **_SYSTEM_PLACES[late_system_messages])
        self._write_call = make_call_writer(self.shape, tool_call_format)
        calls = [] if self.shape.inline_calls else self._write_answers("call", "values", "calls")
        recognised = recognise(calls, self.specials)
        self.tool_call_format = (recognised or "hermes") if tool_call_format == "auto" else tool_call_format
        """The name of the style in which calls are read."""
        self.splits_reasoning: bool = reasoning == "split" or (
            reasoning == "auto" and (self.shape.knows_reasoning or self.tool_call_format == "harmony")
        )
        """Whether reasoning is separate from the content of an answer."""
        style = fit(STYLES[self.tool_call_format], calls)
        if isinstance(style, Style):
            style = evolve(style, frames=(*style.frames, *self._frames), salvage=unclosed_calls == "read")
        self._make_parser = _choose_parser(self.tool_call_format, style, splits=self.splits_reasoning)
        self._write_call = make_call_writer(self.shape, self.tool_call_format)
        self.tools_in_system: bool = self._choose_tool_place(tools_in_prompt)
        """Whether tools are described in the system message; otherwise the template shows them, or drops them."""
        read_as, unread = self.tool_call_format, self._find_unread(style)
        self.notices: tuple[str, ...] = describe_losses(self.shape, self._key, tool_call_format=read_as, unread=unread)
        """What the template cannot show, and where it goes instead; for the user, before the first episode."""
        tools = describe_tool_losses(self.shape, self._key, tools_in_system=self.tools_in_system, tool_call_format=read_as)
        self.tool_notices: tuple[str, ...] = tuple(tools)
        """The same of tools and their calls; before the first call that offers some."""
        if streamed_calls == "pieces" and isinstance(self._make_parser, Style):
            from astuner.model.rendering.tool_calls.begun_calls import PiecewiseParser

            self._make_parser = evolve(self._make_parser, make_parser=PiecewiseParser)

    def _write_answers(self, *kinds: str) -> list[WrittenAnswer]:
        def render(messages: Sequence[Mapping[str, Any]], generate: bool) -> str:
            # The tools of a conversation are in its header in both, so they change nothing but whether a template shows calls.
            prepared = self.shape.prepare(messages, self._write_call)
            return self._apply(prepared, TOOLS if self.shape.shows_tools or self.needs_tools else (), generate, {})

        return write_answers(render, self.turn_ends.values(), kinds)

    def _find_unread(self, style: MakeParser) -> tuple[str, str] | None:
        """Return an answer that does not come back as the template writes it, and what is read of it."""
        kinds = ("call", "values", *["calls"] * self.shape.many_calls, "text", "thought", "answer")
        differences = ((answer.text, answer.find_difference(style)) for answer in self._write_answers(*kinds))
        return next((found for found in differences if found[1]), None)

    @cached_property
    def vocabulary(self) -> int:
        """One more than the largest id of the tokenizer."""
        return 1 + max(int(number) for number in self.tokenizer.get_vocab().values())

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation, with the header of the next answer if `generate`.

        Raises ApiError (400) when the template refuses the messages or would lose one.
        """
        self._refuse_parallel(messages)
        described = self._write_call.describe(tools) if tools and self.tools_in_system else ""
        try:
            prepared = self.shape.prepare(messages, self._write_call, described)
            text = self._apply(prepared, () if described else tools, generate, kwargs)
        except Exception as error:  # noqa: BLE001 - a template is the model author's code and may raise anything
            raise bad_request(f"The model's chat template refuses these messages: {error}", "messages") from None
        try:
            text.encode()
        except UnicodeEncodeError:
            raise bad_request("'messages' hold half a surrogate pair, which no tokenizer can encode.", "messages") from None
        _check_contents(messages, text)
        if _find_content(described.strip(), text, 0) < 0:
            raise bad_request("The model's chat template drops the system message that describes the tools.", "messages")
        return text

    def counts_little(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Whether no number in the template's expressions is larger than two, so that it counts messages no further."""
        return self._template.find_largest(() if self.tools_in_system else tools) <= 2

    def render_beginning(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, kwargs: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation up to where its last message ends, which is the beginning of an answer.

        Blanks at its end stay where the template keeps them, as transformers has it. Raises ApiError (400) as `render` does.
        """
        last = messages[-1]
        content = str(last["content"])
        if last.get("tool_calls") or (last.get("reasoning_content") and not content):
            raise bad_request(
                "The last message is the assistant's, and it is not the beginning of a text, which alone can be continued. End "
                "with the results of its tool calls, or with a message of the user.",
                f"messages[{len(messages) - 1}]",
            )
        if not content.strip():
            return self.render(messages[:-1], tools, generate=True, kwargs=kwargs)
        text = self.render(messages, tools, generate=False, kwargs=kwargs)
        # A template may write the reasoning in front of a text in its own way.
        for shown in (content.lstrip(), content.rpartition("</think>")[2].lstrip()):
            if (start := text.rfind(shown.strip())) >= 0 and shown.strip():
                return text[:start] + (shown if text.startswith(shown, start) else shown.strip())
        raise bad_request(
            "The model's chat template does not show the last message as it is, so it cannot be continued.", "messages"
        )

    def shows_reasoning(self, answer: Message, after: Sequence[Message], kwargs: Mapping[str, Any]) -> bool:
        """Whether the template shows the reasoning of an answer that these messages follow; tried once for each kind."""
        kind = (bool(answer.get("tool_calls")), *sorted({message["role"] for message in after}), repr(kwargs))
        if kind not in self._shows_reasoning:
            conversation = [USER, {**answer, "reasoning_content": PROBE}, *after]
            try:
                text = self.render(conversation, TOOLS if self.needs_tools else (), generate=True, kwargs=kwargs)
            except ApiError:
                text = ""
            self._shows_reasoning[kind] = PROBE in text
        return self._shows_reasoning[kind]

    def encode(self, text: str) -> Ids:
        """Return the ids of a text; special tokens in it become their ids, none is added. The array is read-only."""
        return self._encode_cached(text) if len(text) <= LONGEST_CACHED else self._encode(text)

    def encode_short(self, text: str) -> Ids:
        """Return the ids of a text as `encode` does; raises LongText if that would take long."""
        if len(text) > LONGEST_CACHED:
            raise LongText
        return self._encode_cached(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        if self._backend is not None:
            return str(self._backend.decode(ids, skip_special_tokens=False))
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def parser(self, prompt: str, *, tools: Sequence[Mapping[str, Any]], parallel: bool) -> ReplyParser:
        """Return a parser for the answer to a rendered prompt; `tools` are those whose calls are read.

        If the template shows only one call of an answer, the parser reads only one.
        """
        return self._make_parser(prompt, tools=tools, parallel=parallel and self.shape.many_calls)

    def _encode(self, text: str) -> Ids:
        if self._in_parts is not None:
            return self._in_parts(text)
        ids = np.asarray(self.tokenizer.encode(text, add_special_tokens=False), dtype=np.int32)
        ids.setflags(write=False)
        return ids

    def _apply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        return self._template(messages, tools, generate, kwargs)

    def _check(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise AstunerError(
                f"model.path: the tokenizer of '{getattr(tokenizer, 'name_or_path', '')}' has no chat template, so messages "
                "cannot become tokens. Use an instruct model, or give one in model.chat_template."
            )

    def _choose_tool_place(self, wanted: str) -> bool:
        """Return whether tools go into the system message; raises AstunerError if a call made from there could not be read."""
        if wanted == "template" or (wanted == "auto" and self.shape.shows_tools):
            return False
        readable = reads_back(self._write_call, self._make_parser)
        if wanted == "system" and not readable:
            raise AstunerError(
                f"model.tools_in_prompt: 'system' describes a call in a form that tool_call_format '{self.tool_call_format}' "
                "does not read; set model.tool_call_format to auto, or model.tools_in_prompt to template."
            )
        return readable

    def _refuse_parallel(self, messages: Sequence[Message]) -> None:
        if self.shape.many_calls:
            return
        for number, message in enumerate(messages):
            if len(message.get("tool_calls") or ()) > 1:
                raise bad_request(
                    f"messages[{number}] holds more than one tool call, of which the model's chat template shows the first only. "
                    "Send one call for each message.",
                    f"messages[{number}].tool_calls",
                )

    def _drop_frames(self, after: str) -> str:
        """Return what follows an answer without the markers that belong to its text, which are remembered."""
        known = {frame for style in STYLES.values() if isinstance(style, Style) for frame in style.frames}
        while found := next((frame for frame in known if after.lstrip().startswith(frame)), ""):
            after = after.lstrip()[len(found) :]
            self._frames = (*self._frames, found)
        return after.lstrip()

    def _find_ends(self) -> dict[int, str]:
        """Collect the special tokens that follow an assistant's text in the template, and the end-of-sequence token."""
        specials = self.specials
        found = set()
        conversation = [USER, {"role": "assistant", "content": PROBE}, USER]
        try:
            try:
                text = self._apply(conversation, (), False, {})
            except Exception:  # noqa: BLE001 - some templates take only conversations with tools
                text = self._apply(conversation, TOOLS, False, {})
                self.needs_tools = True
        except Exception as error:
            raise AstunerError(
                f"{self._key}: the chat template of '{self.tokenizer.name_or_path}' cannot render a user and an assistant "
                f"message: {error}. Repair it."
            ) from error
        # Of a model's own template each request says so: what it was made for may be images, or parts of messages.
        if PROBE not in text and self._key != "model.path":
            raise AstunerError(f"{self._key}: the chat template shows no answer of the assistant. Repair it, or give another.")
        after = self._drop_frames(text.partition(PROBE)[2])
        first = max((token for token in specials if after.startswith(token)), key=len, default=None)
        if first is not None:
            found.add(first)
        if self.tokenizer.eos_token is not None:
            found.add(str(self.tokenizer.eos_token))
        # Some models end a turn with tool calls by a different token (Llama's <|eom_id|>, GLM's <|observation|>), and a
        # model that ends its text ends its turn.
        ends = r"<\|(eot_id|eom_id|im_end|return|call|observation|endoftext|end_of_text)\|>"
        found.update(token for token in specials if re.fullmatch(ends, token))
        numbers = {token: specials.get(token, self.tokenizer.convert_tokens_to_ids(token)) for token in found}
        return {int(number): token for token, number in sorted(numbers.items()) if number is not None}


def _choose_parser(style: str, make: MakeParser, *, splits: bool) -> MakeParser:
    if splits:
        return make
    if not isinstance(make, Style):
        raise AstunerError(
            f"model.reasoning: 'keep' is not possible with tool_call_format '{style}', whose channels separate reasoning from "
            "content; set model.reasoning to auto."
        )
    return evolve(make, splits=False)


def _check_contents(messages: Sequence[Message], text: str) -> None:
    """Check that a rendered conversation holds every message; raises ApiError (400) for the first that it drops."""
    reached = 0
    for number, message in enumerate(messages):
        content = message["content"].strip()
        if message["role"] == "assistant":
            # A template may strip old reasoning, and the text next to tool calls; the answer itself must stay.
            content = "" if message.get("tool_calls") else content.rpartition("</think>")[2].strip()
        if content:
            place = _find_content(content, text, reached)
            if place < 0:
                raise bad_request(
                    f"The model's chat template drops messages[{number}] (role {message['role']}), "
                    "so the model would never see it.",
                    f"messages[{number}]",
                )
            reached = max(reached, place)


def _find_content(content: str, text: str, reached: int) -> int:
    """Return where a content appears, preferably after the earlier messages; -1 if it is missing."""
    place = text.find(content, reached)
    if place < 0:
        place = text.find(content)
    return place if place >= 0 else text.find(json.dumps(content, ensure_ascii=False)[1:-1])


def load_renderer(model_path: str, **options: str) -> TemplateRenderer:
    """Load the tokenizer of a model, a local folder or a hub id, with the ends that its generation configuration names.

    `options` are TemplateRenderer's; `config.model.rendering` holds those of a configuration.
    """
    return TemplateRenderer(load_tokenizer(model_path), generation_ends(model_path), source=model_path, **options)
