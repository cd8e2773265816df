"""Who made each component of a run."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from astuner.protocols import Candidate


@frozen(kw_only=True)
class Provenance:
    """One answer to a deciding hook."""

    candidate: Candidate
    """The requested component."""
    made_by: str
    """`astuner-core`, or the extension that answered in its place."""
    wrapped_by: tuple[str, ...] = ()
    """The extensions that wrapped the component, outermost first."""

    def row(self) -> Mapping[str, str]:
        """Return it as strings, for `run.json`."""
        candidate = self.candidate
        return {
            "kind": candidate.kind,
            "name": candidate.name,
            "target": candidate.target,
            "dist": candidate.dist or "",
            "version": candidate.version or "",
            "made_by": self.made_by,
            "wrapped_by": "; ".join(self.wrapped_by),
        }
