"""Answers as responses: made in a worker's thread, compressed if they are large."""

from __future__ import annotations

import gzip
import logging
from typing import Any

from attrs import frozen
from starlette.responses import Response

from astuner.contract.errors import AstunerError
from astuner_logview.answers import encode_answer
from astuner_logview.errors import Unanswerable

log = logging.getLogger(__name__)

LARGE = 4096
"""Bytes; larger answers are compressed."""


@frozen(kw_only=True)
class Body:
    """An answer that is ready to be sent."""

    data: bytes
    compressed: bool = False
    status: int = 200

    def respond(self) -> Response:
        """Return the response."""
        headers = {"Content-Type": "application/json", "Cache-Control": "no-store", "Vary": "Accept-Encoding"}
        if self.compressed:
            headers["Content-Encoding"] = "gzip"
        return Response(self.data, self.status, headers=headers)


def make_body(answer: dict[str, Any], *, accepts_gzip: bool) -> Body:
    """Encode an answer."""
    data = encode_answer(answer)
    if accepts_gzip and len(data) > LARGE:
        return Body(data=gzip.compress(data, 1), compressed=True)
    return Body(data=data)


def respond_to_error(error: BaseException) -> Response:
    """Return the response for an error: its reason, and never a traceback. An unexpected error is logged."""
    if isinstance(error, Unanswerable):
        return Body(data=encode_answer(error.to_json()), status=error.status).respond()
    if isinstance(error, AstunerError):
        return Body(data=encode_answer({"error": str(error), "remedy": ""}), status=400).respond()
    log.error("the viewer failed to answer", exc_info=error)
    what: dict[str, Any] = {
        "error": f"the viewer failed: {type(error).__name__}",
        "remedy": "the terminal in which it runs, or its log, has the details",
    }
    return Body(data=encode_answer(what), status=500).respond()
