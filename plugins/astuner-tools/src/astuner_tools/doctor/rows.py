"""One line of the doctor's table."""

from __future__ import annotations

from typing import Literal

from attrs import asdict, frozen

Status = Literal["ok", "warning", "missing", "broken"]


@frozen(kw_only=True)
class Row:
    """A line of the table."""

    area: str
    """What it belongs to, such as `gpu`; rows of one area follow each other."""
    what: str
    status: Status = "ok"
    """`missing` is something optional that is absent; only `broken` makes the doctor's exit code 1."""
    detail: str = ""
    remedy: str = ""
    """What to do, as a command if there is one."""

    def as_dict(self) -> dict[str, str]:
        """Return it for `--json`."""
        return asdict(self)
