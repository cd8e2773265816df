"""A component that was chosen for a run, with its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate
    from astuner.settings.config.rewards import JudgeChoice


@frozen(kw_only=True)
class Component:
    """A chosen component and its options, already structured."""

    candidate: Candidate
    options: Any = None
    terms: JudgeChoice | None = None
    """For one of several judges: how it counts."""
