"""What a virtual environment is made of, for a backbone whose libraries exclude those of its users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from astuner.contract.protocols import VenvState


@frozen(kw_only=True)
class LockedVenv:
    """An `OwnVenv` that `astuner setup NAME` makes, with the packages of the user's environment."""

    in_place_with: str
    """A distribution that only an environment of this backbone has: where it is installed, nothing has to be made or entered."""
    requirements: Path
    """What the backbone needs to train, as a requirements file; its own package is added."""
    lock: Path
    """`NAME==VERSION` for everything that these requirements bring, the versions that were tried together, with the hashes of
    their files."""
    overrides: Path | None = None
    """Requirements that replace what the libraries declare, if that cannot be met; None if it can."""
    systems: tuple[tuple[str, str], ...] = ()
    """Where the lock can be installed, as (`sys.platform`, `platform.machine()`); empty for everywhere."""

    def examine(self, backbone: str) -> VenvState:
        """Return the state of the environment. Reads metadata only."""
        from astuner_trinity.own_venv.examination import examine_venv

        return examine_venv(backbone, self)
