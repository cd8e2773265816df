"""The virtual environment of a backbone whose libraries exclude those of its users."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen


@frozen(kw_only=True)
class OwnVenv:
    """What such an environment is made of; the files come with the backbone's package.

    `astuner setup NAME` makes it, with the packages of the user's environment; commands that use the backbone enter it.
    """

    in_place_with: str
    """A distribution that only an environment of this backbone has: where it is installed, nothing has to be made or entered."""
    requirements: Path
    """What the backbone needs to train, as a requirements file; its own package is added."""
    lock: Path
    """`NAME==VERSION` for everything that these requirements bring: the versions that were tried together."""
    overrides: Path | None = None
    """Requirements that replace what the libraries declare, if that cannot be met; None if it can."""
    systems: tuple[tuple[str, str], ...] = ()
    """Where the lock can be installed, as (`sys.platform`, `platform.machine()`); empty for everywhere."""
