"""Error responses of the gateway, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES: Mapping[int, str] = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "server_error",
}


class ApiError(Exception):
    """A refusal that is sent to the client unchanged."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None, retry: bool | None = None
    ) -> None:
        """`retry` instructs the client's own retry logic; None leaves it to the status."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry = retry

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body."""
        kind = TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers besides the content type."""
        found = []
        if self.status == 503:
            found.append((b"retry-after", b"1"))
        if self.retry is not None:
            found.append((b"x-should-retry", b"true" if self.retry else b"false"))
        return found


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Make the answer to a body that cannot be served: status 400."""
    return ApiError(400, message, code=code, param=param)


def context_full(prompt: int, limit: int, *, exact: bool = True, key: str = "rollout.max_model_len") -> ApiError:
    """Make the answer to a prompt that leaves no room: a lower bound unless `exact`; `key` of the configuration is the limit."""
    taken = f"{prompt}" if exact else f"at least {prompt}"
    return ApiError(
        400,
        f"This model's maximum context length is {limit} tokens, and the messages already take {taken}. Shorten them, or "
        f"raise {key}.",
        code="context_length_exceeded",
        param="messages",
        retry=False,
    )
