"""From our request to the body of `/inference/v1/generate`."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from astuner.contract.schema import Request

CONSTRAINTS = ("json_object", "json_schema")
"""Supported kinds of `Request.constraint`. A model's form of tool calls is not known here."""
MOST_LOGPROBS = 20
"""A server's default."""
TOKENS_AT_ONCE = 64
"""Tokens per part of an answer that is not streamed: parts of one token take half of a server's time."""


def build_body(request: Request, model: str | None, *, salt: int = 0) -> dict[str, Any]:
    """Return the body; only `stop_token_ids` end an answer, as the gateway expects it.

    Another `salt` gives the same requests other seeds.
    """
    sampling = request.sampling
    tops = sampling.top_logprobs
    params: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": sampling.max_tokens,
        "stop_token_ids": list(sampling.stop_token_ids),
        "seed": _mix_seed(sampling.seed ^ salt),
        # The sampled token takes one of these places.
        "logprobs": min(tops + 1, MOST_LOGPROBS) if tops else 0,
        # The gateway makes the text.
        "detokenize": False,
        "ignore_eos": request.constraint is None,
        "stream_interval": 1 if request.stream else TOKENS_AT_ONCE,
    }
    if request.constraint is not None:
        params["structured_outputs"] = translate_constraint(request.constraint)
    body = {
        # A retry must not have the same name.
        "request_id": f"{request.id}-{token_hex(4)}",
        "token_ids": list(request.prompt_ids),
        "sampling_params": params,
        "stream": True,
    }
    return body if model is None else {**body, "model": model}


def translate_constraint(constraint: Mapping[str, Any]) -> dict[str, Any]:
    """Return vLLM's form of a constraint; raises ValueError for one not in `CONSTRAINTS`."""
    match constraint.get("type"):
        case "json_object":
            return {"json_object": True}
        case "json_schema":
            return {"json": constraint["schema"]}
        case other:
            raise ValueError(f"the engine 'vllm' cannot constrain an answer to '{other}'; it knows {', '.join(CONSTRAINTS)}")


def _mix_seed(seed: int) -> int:
    """Return a seed of 63 bits, as vLLM takes on a GPU; its lower half, all that a CPU uses, depends on the whole."""
    return (seed ^ (seed >> 32)) & (2**63 - 1)
