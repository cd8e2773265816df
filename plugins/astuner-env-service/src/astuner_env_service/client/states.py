"""The state of an instance as the server sends it, after creation and after each step."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from astuner.contract.schema import Message


class InvalidState(ValueError):
    """The server's object does not follow the protocol."""


@frozen(kw_only=True)
class State:
    """One state of an instance."""

    messages: tuple[Message, ...]
    reward: float = 0.0
    is_terminated: bool = False
    info: Mapping[str, Any] = field(factory=dict)


def read_state(data: Any) -> State:
    """Return the state in the server's object; `state` in it is a list of messages, or one. Raises `InvalidState`."""
    if not isinstance(data, Mapping) or "state" not in data:
        raise InvalidState(f"an object with `state` is expected, not {data!r:.200}")
    info = data.get("info")
    if info is not None and not isinstance(info, Mapping):
        raise InvalidState(f"`info` is an object, not {info!r:.120}")
    return State(
        messages=_parse_messages(data["state"]),
        reward=parse_number(data.get("reward"), "reward"),
        is_terminated=_parse_flag(data.get("is_terminated")),
        info=dict(info or {}),
    )


def parse_number(value: Any, name: str) -> float:
    """Return a finite number; null counts as 0, since servers leave out what does not apply."""
    if value is None:
        return 0.0
    if isinstance(value, str) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidState(f"`{name}` is a finite number, not {value!r:.80}")
    return float(value)


def _parse_flag(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool) and value not in (0, 1):
        raise InvalidState(f"`is_terminated` is true or false, not {value!r:.80}")
    return bool(value)


def _parse_messages(state: Any) -> tuple[Message, ...]:
    if state is None:
        return ()
    several = state if isinstance(state, list) else [state]
    return tuple(_parse_message(one) for one in several)


def _parse_message(data: Any) -> Message:
    """Return one message. Older servers leave the role out, give `error` in place of a content, or an object of another form."""
    if isinstance(data, str):
        return {"role": "user", "content": data}
    if not isinstance(data, Mapping):
        raise InvalidState(f"a message is an object with role and content, not {data!r:.120}")
    if "content" in data or data.get("tool_calls"):
        return {"role": "user", **data}
    if "error" in data:
        return {"role": "user", "content": f"[error of the environment] {data['error']}"}
    return {"role": "user", "content": json.dumps(data, ensure_ascii=False)}
