"""A pytest plugin: a stand-in for the package vllm whose parsers are ours, so that vLLM's own tests of them run unchanged.

What those tests import and this does not know is an empty class, and what needs vLLM's engine is skipped.
"""

from __future__ import annotations

import os
import re
import sys
import types
import uuid
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any, ClassVar

import pytest
from attrs import evolve

from astuner.model.rendering.reply_parser import Style
from astuner.model.rendering.tool_calls import STYLES
from astuner.model.rendering.tool_calls.begun_calls import PiecewiseParser


class Record:
    """Any fields; a missing one is None, as in vLLM's protocol."""

    defaults: Mapping[str, Any] = {}

    def __init__(self, *args: Any, **fields: Any) -> None:
        made = {key: value() if callable(value) else value for key, value in self.defaults.items()}
        vars(self).update(made | fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.model_dump() == other.model_dump()

    __hash__ = object.__hash__

    def model_dump(self, **_: Any) -> Any:
        return _plain(self)


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return {key: _plain(inner) for key, inner in vars(value).items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    # Tools of the SDK of OpenAI.
    return value.model_dump() if hasattr(value, "model_dump") else value


def record(name: str, **defaults: Any) -> type[Record]:
    return type(name, (Record,), {"defaults": defaults})


Function, FunctionCall, DeltaFunctionCall, Found = map(
    record, ("FunctionDefinition", "FunctionCall", "DeltaFunctionCall", "ExtractedToolCallInformation")
)
ToolCall = record("ToolCall", type="function", id=lambda: uuid.uuid4().hex[:9])
DeltaToolCall = record("DeltaToolCall")
DeltaMessage = record("DeltaMessage", tool_calls=list)


class Tool(Record):
    defaults: Mapping[str, Any] = {"type": "function"}

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if isinstance(self.function, dict):
            self.function = Function(**self.function)


class ChatRequest(Record):
    defaults: Mapping[str, Any] = {"tool_choice": "auto", "skip_special_tokens": True}

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.tools = [Tool(**tool) if isinstance(tool, dict) else tool for tool in self.tools or ()] or None


class AnyName(str):
    """The name of a tool that is whichever one is called."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Parser:
    """One of our styles behind the interface of vLLM's parsers."""

    style = ""

    def __init__(self, tokenizer: Any = None, tools: Any = None, *_: Any, **__: Any) -> None:
        self.model_tokenizer = tokenizer
        self.tools = tools
        self.prev_tool_call_arr: list[Any] = []
        self.streamed_args_for_tool: list[Any] = []
        self._parser: Any = None
        self._number = -1

    @property
    def vocab(self) -> Mapping[str, int]:
        return self.model_tokenizer.get_vocab()

    def _make(self, request: Any) -> Any:
        given = [_plain(tool) for tool in self.tools or getattr(request, "tools", None) or ()]
        tools = [tool if "function" in tool else {"type": "function", "function": tool} for tool in given]
        anything = {"type": "function", "function": {"name": AnyName("anything"), "parameters": {}}}
        style = STYLES[self.style]
        if isinstance(style, Style) and os.environ.get("ASTUNER_STREAMED_CALLS") == "pieces":
            style = evolve(style, make_parser=PiecewiseParser)
        return style("", tools=tools or [anything], parallel=True)

    def extract_tool_calls(self, model_output: str, request: Any = None) -> Record:
        parser = self._make(request)
        pieces = [*parser.feed(model_output), *parser.finish()]
        calls = []
        for piece in pieces:
            if piece.follows:
                calls[-1].function.arguments += piece.text
            elif piece.kind == "tool_call":
                function = FunctionCall(name=piece.name, arguments=piece.text)
                calls.append(ToolCall(function=function, **({"id": piece.id} if piece.id else {})))
        content = "".join(piece.text for piece in pieces if piece.kind == "content") or None
        return Found(tools_called=bool(calls), tool_calls=calls, content=content)

    def extract_tool_calls_streaming(
        self, previous_text: str = "", current_text: str = "", delta_text: str = "", *_: Any, request: Any = None, **__: Any
    ) -> Record | None:
        if self._parser is None or (not previous_text and current_text in ("", delta_text)):
            self._parser, self._number = self._make(request), -1
        return self._collect(self._parser.feed(delta_text))

    def flush(self) -> Record | None:
        parser, self._parser = self._parser, None
        return self._collect(parser.finish()) if parser else None

    def _collect(self, pieces: Any) -> Record | None:
        calls, texts = [], []
        for piece in pieces:
            if piece.follows and calls:
                calls[-1].function.arguments += piece.text
            elif piece.follows:
                calls.append(DeltaToolCall(index=self._number, function=DeltaFunctionCall(arguments=piece.text)))
            elif piece.kind == "tool_call":
                function = DeltaFunctionCall(name=piece.name, arguments=piece.text)
                id_ = piece.id or uuid.uuid4().hex[:9]
                self._number += 1
                calls.append(DeltaToolCall(index=self._number, id=id_, type="function", function=function))
            else:
                texts.append(piece.text)
        return DeltaMessage(content="".join(texts) or None, tool_calls=calls) if calls or texts else None

    def get_structural_tag(self, *_: Any, **__: Any) -> None:
        pytest.skip("structural tags are the engine's")

    adjust_request = get_structural_tag


STYLE_OF: Mapping[str, str] = {
    "Hermes2ProToolParser": "hermes",
    "Qwen3EngineToolParser": "qwen_xml",
    "Glm47MoeModelToolParser": "glm",
    "Llama3JsonToolParser": "llama3",
    "DeepSeekV3ToolParser": "deepseek",
    "DeepSeekV31ToolParser": "deepseek",
    "DeepSeekV32EngineToolParser": "deepseek_v32",
    "DeepSeekV4EngineToolParser": "deepseek_v4",
    "KimiK2ToolParser": "kimi",
    "MinimaxM2ToolParser": "minimax",
    "Granite4ToolParser": "hermes",
    "GraniteEngineToolParser": "granite",
    "Granite20bFCToolParser": "granite",
    "PythonicToolParser": "python",
    "Lfm2ToolParser": "lfm2",
    "ApertusToolParser": "apertus",
    "MinimaxM3ToolParser": "minimax_m3",
    "Step3p5ToolParser": "qwen_xml",
}
PARSERS = {name: type(name, (Parser,), {"style": style}) for name, style in STYLE_OF.items()}
REGISTERED: Mapping[str, str] = {
    "hermes": "Hermes2ProToolParser",
    "granite": "GraniteEngineToolParser",
    "granite-20b-fc": "Granite20bFCToolParser",
    "pythonic": "PythonicToolParser",
    "llama4_pythonic": "PythonicToolParser",
    "lfm2": "Lfm2ToolParser",
    "minimax_m3": "MinimaxM3ToolParser",
    "deepseek_v3": "DeepSeekV3ToolParser",
    "deepseek_v32": "DeepSeekV32EngineToolParser",
    "deepseek_v4": "DeepSeekV4EngineToolParser",
    "kimi_k2": "KimiK2ToolParser",
    "glm45": "Glm47MoeModelToolParser",
    "glm47": "Glm47MoeModelToolParser",
    "llama3_json": "Llama3JsonToolParser",
    "minimax_m2": "MinimaxM2ToolParser",
    "qwen3_coder": "Qwen3EngineToolParser",
    "qwen3_xml": "Qwen3EngineToolParser",
}


class Manager:
    @staticmethod
    def get_tool_parser(name: str) -> type[Parser]:
        return PARSERS[REGISTERED[name]]


class Tokenizer:
    """Splits into markers and words: how a text is cut into deltas does not matter to the parsers."""

    words: ClassVar[list[str]] = []
    numbers: ClassVar[dict[str, int]] = {}
    pattern = re.compile(r"<\|[^|<>]*\|>|<｜[^<>｜]*｜>|</?[\w:=\-]+>|\[[A-Z_]+\]|\s?\w+|\s+|[^\w\s]")
    all_special_ids: Sequence[int] = ()
    all_special_tokens: Sequence[str] = ()
    is_fast = True

    @classmethod
    def from_pretrained(cls, *_: Any, **__: Any) -> Tokenizer:
        return cls()

    def tokenize(self, text: str, **_: Any) -> list[str]:
        return self.pattern.findall(text)

    def _number(self, word: str) -> int:
        if word not in self.numbers:
            self.numbers[word] = len(self.words)
            self.words.append(word)
        return self.numbers[word]

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        return [self._number(word) for word in self.tokenize(text)]

    def __call__(self, text: str, **_: Any) -> Any:
        return types.SimpleNamespace(input_ids=self.encode(text))

    def decode(self, ids: Any, **_: Any) -> str:
        return "".join(self.words[number] for number in ([ids] if isinstance(ids, int) else ids))

    def convert_tokens_to_ids(self, words: Any) -> Any:
        return self._number(words) if isinstance(words, str) else [self._number(word) for word in words]

    def convert_ids_to_tokens(self, ids: Any, **_: Any) -> list[str]:
        return [self.words[number] for number in ids]

    def get_vocab(self) -> Mapping[str, int]:
        return self.numbers

    vocab = property(get_vocab)


def detokenize_incrementally(tokenizer: Any, all_input_ids: Sequence[int], *_: Any, **__: Any) -> Any:
    word = Tokenizer.words[all_input_ids[-1]]
    return [word], word, 0, 0


KNOWN: Mapping[str, Any] = {
    **PARSERS,
    "FunctionCall": FunctionCall,
    "DeltaFunctionCall": DeltaFunctionCall,
    "FunctionDefinition": Function,
    "ToolCall": ToolCall,
    "DeltaToolCall": DeltaToolCall,
    "DeltaMessage": DeltaMessage,
    "ExtractedToolCallInformation": Found,
    "ChatCompletionToolsParam": Tool,
    "ChatCompletionRequest": ChatRequest,
    "ResponsesRequest": ChatRequest,
    "ToolParser": Parser,
    "ToolParserManager": Manager,
    "TokenizerLike": object,
    "get_tokenizer": Tokenizer.from_pretrained,
    "detokenize_incrementally": detokenize_incrementally,
}


class Module(types.ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return KNOWN.get(name) or record(name)


class Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in ("vllm", "xgrammar") else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def run_stream(parser: Parser, deltas: Any, request: Any = None, assert_one_tool_per_delta: bool = True) -> Any:
    """Stand in for the helper of vLLM's tests, which gives the parser ids too; also ask for what is held back at the end."""
    from tests.tool_parsers import utils

    texts = utils.split_string_into_token_deltas(Tokenizer(), deltas) if isinstance(deltas, str) else deltas
    found = utils.StreamingToolReconstructor(assert_one_tool_per_delta=False)
    before = ""
    for text in texts:
        if (message := parser.extract_tool_calls_streaming(before, before + text, text, request=request)) is not None:
            found.append_delta(message)
        before += text
    if (message := parser.flush()) is not None:
        found.append_delta(message)
    return found


# Before the first conftest is imported.
sys.meta_path.insert(0, Finder())


def pytest_configure(config: pytest.Config) -> None:
    import transformers
    from tests.tool_parsers import utils

    transformers.AutoTokenizer.from_pretrained = staticmethod(Tokenizer.from_pretrained)
    utils.run_tool_extraction_streaming = run_stream
