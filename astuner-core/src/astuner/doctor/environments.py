"""Engines that cannot share an environment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.metadata import PackageNotFoundError, version

from astuner.doctor.rows import Row

_BROUGHT = {"verl": "astuner-verl", "trinity": "astuner-trinity"}


def environment_rows(wanted: Collection[str] = ()) -> Iterator[Row]:
    """Yield a warning where both engines are installed, or one is and the other is `wanted`; backbones by name."""
    relevant = {name for name, package in _BROUGHT.items() if name in wanted or _is_installed(package)}
    if relevant == set(_BROUGHT):
        yield Row(
            area="engines",
            what="verl and trinity",
            status="warning",
            detail="verl 0.9 and trinity-rft 0.6 exclude each other: they pin different transformers and numpy",
            remedy="a virtual environment each: pip install astuner-core astuner-verl in one, pip install astuner-core "
            "astuner-trinity in the other; a project runs from either without a change",
        )


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
