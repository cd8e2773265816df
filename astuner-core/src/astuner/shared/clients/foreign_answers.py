"""Answers of APIs that are not ours: read as a stream with a limit, and failures in words that quote no prompt."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from astuner.contract.plain_values import mend_text

MOST_BYTES = 32 << 20
"""Of one answer, unpacked: a model's longest answer is a few MiB, and so are the vectors of a hundred texts."""
_SHOWN = 500


async def limit_answer(response: Any) -> None:
    """Bound the body of an answer of `httpx` or `httpx2`: reading more raises the library's `DecodingError`. An event hook."""
    library = importlib.import_module(type(response).__module__.partition(".")[0])
    packing = response.headers.pop("content-encoding", "identity").strip().lower()
    body = response.stream

    class Limited(library.AsyncByteStream):  # type: ignore[name-defined,misc]  # the library is known at run time only
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            try:
                async for piece in _unpack(body, packing):
                    size += len(piece)
                    if size > MOST_BYTES:
                        raise ValueError(f"the answer is larger than {MOST_BYTES >> 20} MiB")
                    yield piece
            except (ValueError, zlib.error) as error:
                raise library.DecodingError(str(error), request=response.request) from None

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = Limited()


LIMITED: Mapping[str, Any] = {"event_hooks": {"response": [limit_answer]}, "headers": {"Accept-Encoding": "gzip"}}
"""Arguments of an asynchronous client whose answers have a limit."""


async def _unpack(body: Any, packing: str) -> AsyncIterator[bytes]:
    if packing not in ("identity", "gzip", "x-gzip", "deflate", ""):
        raise ValueError(f"the answer is packed by {packing[:_SHOWN]!r}, which was not asked for")
    packed = packing not in ("identity", "")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for part in body:
        while part:
            yield inflate.decompress(part, 1 << 16) if packed else part
            part = inflate.unconsumed_tail
    yield inflate.flush() if packed else b""


def describe_cause(error: BaseException) -> str:
    """Return what a failure of the connection comes from, such as a certificate; the beginning of it, without what was sent."""
    found = error
    at: BaseException | None = error
    while at is not None:
        found = at if str(at) else found
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    # This error quotes the whole text, which may be a prompt.
    said = found.reason if isinstance(found, UnicodeError) and hasattr(found, "reason") else str(found)
    return shorten(f"{type(found).__name__}: {said}" if said else type(found).__name__)


def shorten(text: str) -> str:
    """Return the beginning of a text, as valid Unicode, for a message."""
    text = mend_text(text[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
