"""Errors that cross processes: with their class where the other side has it, and with their text everywhere."""

from __future__ import annotations

import pickle
from typing import Any

from attrs import frozen

from astuner.contract.errors import AstunerError, RunFailed, describe_error


@frozen(kw_only=True)
class PortableError:
    """An error as it is sent."""

    text: str
    content: bytes | None
    """Its class, arguments and attributes, pickled; None if they cannot be."""

    @classmethod
    def of(cls, error: BaseException) -> PortableError:
        """Take down an error; its traceback stays behind, but for the line that raised."""
        try:
            content = pickle.dumps((type(error), error.args, vars(error)))
        except Exception:  # noqa: BLE001 - attributes of foreign errors may be anything
            content = None
        return cls(text=str(error) if isinstance(error, AstunerError) else describe_error(error), content=content)

    def restore(self) -> Exception:
        """Make the error again; a `RunFailed` with its text if its class is not known here."""
        try:
            return self._rebuild()
        except Exception:  # noqa: BLE001 - the module of the class may not even be importable here
            return RunFailed(self.text)

    def _rebuild(self) -> Exception:
        if self.content is None:
            raise TypeError("an error without content")
        kind, arguments, attributes = pickle.loads(self.content)
        # Not by its constructor, whose arguments need not be those that it passed on.
        made: Any = kind.__new__(kind, *arguments)
        made.args = arguments
        vars(made).update(attributes)
        if not isinstance(made, Exception):
            raise TypeError(f"{kind} is not an Exception")
        return made
