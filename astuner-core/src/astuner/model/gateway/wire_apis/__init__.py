"""The HTTP APIs that agents speak: each parses its bodies into one kind of request and writes answers in its own format.

OpenAI's chat completions are here. The others are components of the kind `wire_api`, which import all they need from this module.
"""

from __future__ import annotations

from astuner.model.gateway.recording.choice_events import Answer, Delta
from astuner.model.gateway.recording.messages import encode_meaning, join_text, normalise
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.wire_apis.chat_completions import (
    CHAT_COMPLETIONS,
    MOST_CHOICES,
    MOST_LOGPROBS,
    ChatWriter,
    Logprobs,
    chat_request,
    read_common_fields,
)
from astuner.model.gateway.wire_apis.chat_tools import describe_custom
from astuner.model.gateway.wire_apis.fields import (
    INVALID_JSON,
    LARGEST,
    format_value,
    read_flag,
    read_integer,
    read_list,
    read_number,
    read_object,
    read_string_in,
    read_strings,
    read_text,
    unwrap_arguments,
    wrap_arguments,
)
from astuner.model.gateway.wire_apis.wire_api import (
    CountRoute,
    GenerationRoute,
    Headers,
    KeptRoute,
    ModelRoute,
    Normalise,
    Route,
    WireApi,
    Writer,
    encode_event,
    encode_json,
    read_bearer,
    rename_messages,
)
from astuner.model.rendering.errors import ApiError, bad_request
from astuner.model.rendering.tool_calls.sampled_json import parse_arguments

__all__ = [
    "CHAT_COMPLETIONS",
    "INVALID_JSON",
    "LARGEST",
    "MOST_CHOICES",
    "MOST_LOGPROBS",
    "Answer",
    "ApiError",
    "ChatRequest",
    "ChatWriter",
    "CountRoute",
    "Delta",
    "GenerationRoute",
    "Headers",
    "KeptRoute",
    "Logprobs",
    "ModelRoute",
    "Normalise",
    "Route",
    "WireApi",
    "Writer",
    "bad_request",
    "chat_request",
    "describe_custom",
    "encode_event",
    "encode_json",
    "encode_meaning",
    "format_value",
    "join_text",
    "normalise",
    "parse_arguments",
    "read_bearer",
    "read_common_fields",
    "read_flag",
    "read_integer",
    "read_list",
    "read_number",
    "read_object",
    "read_string_in",
    "read_strings",
    "read_text",
    "rename_messages",
    "unwrap_arguments",
    "wrap_arguments",
]
