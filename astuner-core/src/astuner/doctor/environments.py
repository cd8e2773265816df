"""Backbones that cannot share an environment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

from astuner.doctor.rows import Row
from astuner.plugins.install_hints import is_installed
from astuner.published import read_published


def environment_rows(wanted: Collection[str] = ()) -> Iterator[Row]:
    """Yield a warning for two packages that exclude each other, if each is installed or among the `wanted` backbones."""
    known = read_published()
    asked = {package for name in wanted if (package := known.package_of("backbone", name)) is not None}
    relevant = {package for package in known.excludes if package in asked or is_installed(package)}
    pairs = [(one, other) for one, other in combinations(sorted(relevant), 2) if other in known.excludes[one]]
    for first, second in pairs:
        yield Row(
            area="engines",
            what=f"{first} and {second}",
            status="warning",
            detail=f"they exclude each other: {known.excludes[first][second]}",
            remedy=f"a virtual environment each: pip install astuner-core {first} in one, pip install astuner-core {second} in "
            "the other; a project runs from either without a change",
        )
