"""Access to a server of traces."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen(kw_only=True)
class Access:
    """How to query a server of traces."""

    project: str | None = None
    """The project; all when None."""
    environ: Mapping[str, str]
    """Where its key is: `PHOENIX_API_KEY`."""
    timeout_s: float = 60.0
