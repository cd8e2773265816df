"""Errors that come from what code is connected to, and not from the code itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from astuner.contract.errors import ServiceUnavailable

CONNECTION_ERRORS = frozenset(
    {
        "builtins.ConnectionError",
        "aiohttp.ClientConnectionError",
        "anthropic.APIConnectionError",
        "botocore.ConnectionError",
        "httpcore.NetworkError",
        "httpcore.RemoteProtocolError",
        "httpx.NetworkError",
        "httpx.ConnectTimeout",
        "httpx.RemoteProtocolError",
        "openai.APIConnectionError",
        "requests.ConnectionError",
        "urllib3.NewConnectionError",
        "urllib3.ProtocolError",
        "websockets.ConnectionClosed",
    }
)
"""Errors of a broken or refused connection, by top-level package and class: the libraries are not imported."""
OTHERS = frozenset(
    {"builtins.BrokenPipeError", "aiohttp.ServerTimeoutError", "anthropic.APITimeoutError", "openai.APITimeoutError"}
)
"""Subclasses of those that the model can cause: it ended a tool's process, or its answer took long."""
SERVICE_ERRORS = frozenset(
    {
        "aiohttp.ServerTimeoutError",
        "anthropic.APITimeoutError",
        "botocore.HTTPClientError",
        "httpcore.TimeoutException",
        "httpx.TimeoutException",
        "openai.APITimeoutError",
        "redis.ConnectionError",
        "redis.TimeoutError",
        "requests.Timeout",
        "socket.gaierror",
        "urllib.URLError",
        "urllib3.TimeoutError",
    }
)
"""Errors by which a judge learns that its service is away: nothing that the model wrote."""
SUCCESSORS = {"httpx2": "httpx", "httpcore2": "httpcore"}
"""Packages that took over the classes of another one."""
LOST_CALLS = frozenset(
    {"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "INTERNAL"}
)
"""Statuses of gRPC that are about the service, and not about what was sent."""
REFUSALS = frozenset({401, 402, 403, 404, 407, 408, 425, 429})
"""Statuses below 500 that are about the key, the address or the load, and not about what was sent."""


def find_surroundings_failure(error: BaseException) -> str | None:
    """Return the reason if an error, or one that led to it, says that the surroundings failed; else None."""
    reason = None
    for cause in _walk_causes(error):
        if isinstance(cause, ServiceUnavailable):
            return "service_unavailable"
        names = _list_names(cause)
        if names & CONNECTION_ERRORS and not names & OTHERS:
            reason = "connection_lost"
    return reason


def is_service_failure(error: BaseException) -> bool:
    """Whether an error of a judge, or one that led to it, says that what it asks failed: a lost connection, a time limit, a 5xx.

    A `TimeoutError` of its own code is not one: the answer may be what takes long.
    """
    return find_surroundings_failure(error) is not None or any(map(_says_service_failed, _walk_causes(error)))


def _says_service_failed(error: BaseException) -> bool:
    status = _read_status(error)
    if callable(read_code := getattr(error, "code", None)) and "grpc.RpcError" in _list_names(error):
        return read_code().name in LOST_CALLS
    return status in REFUSALS or 500 <= status < 600 or (not status and bool(_list_names(error) & SERVICE_ERRORS))


def _list_names(error: BaseException) -> set[str]:
    roots = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__)
    return {f"{SUCCESSORS.get(root, root)}.{name}" for root, name in roots}


def _read_status(error: BaseException) -> int:
    """Return the status of the HTTP response that an error of a client's library stands for; 0 if it is none."""
    if type(error).__module__ == "builtins":
        return 0
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        # Of botocore.
        return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    found = [getattr(error, name, None) for name in ("status_code", "status", "code")]
    found += [getattr(response, name, None) for name in ("status_code", "status")]
    return next((one for one in found if isinstance(one, int) and not isinstance(one, bool)), 0)


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the members of a group, and what a traceback shows as their causes."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if before is not None:
            waiting.append(before)
