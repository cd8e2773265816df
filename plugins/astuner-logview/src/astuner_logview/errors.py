"""What cannot be answered, and what to do about it."""

from __future__ import annotations


class Unanswerable(Exception):
    """A request that has no answer; it becomes `{"error", "remedy"}` with a status."""

    status = 400

    def __init__(self, message: str, remedy: str = "", *, at: int | None = None) -> None:
        """`at` is the position in a filter's text."""
        super().__init__(message)
        self.message, self.remedy, self.at = message, remedy, at

    def to_json(self) -> dict[str, object]:
        """Return it as the JSON object of an answer."""
        place = {} if self.at is None else {"at": self.at}
        return {"error": self.message, "remedy": self.remedy, **place}


class BadRequest(Unanswerable):
    """A parameter that is missing or cannot be understood."""


class Missing(Unanswerable):
    """A run, a group or an episode that does not exist."""

    status = 404


class Rebuilding(Unanswerable):
    """The index of a run is made again."""

    status = 503
