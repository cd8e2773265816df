"""What a request gets that is not answered at all."""

from __future__ import annotations

from astuner_logview.errors import Unanswerable


class Refusal(Unanswerable):
    """A request that breaks the rules of the server, with the status of HTTP that says which."""

    def __init__(self, message: str, remedy: str = "", *, status: int = 400) -> None:
        """`status` is 400 or above."""
        super().__init__(message, remedy)
        self.status = status
