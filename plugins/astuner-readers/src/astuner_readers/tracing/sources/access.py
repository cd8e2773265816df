"""How a server of traces is reached."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen(kw_only=True)
class Access:
    """How a server of traces is asked."""

    project: str | None = None
    """Which project of it; all when None."""
    environ: Mapping[str, str]
    """Where its key is: `PHOENIX_API_KEY`."""
    timeout_s: float = 60.0
