"""Where the modules of earlier states are now: an import of one says what to write instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class MovedModules(MetaPathFinder):
    """The last finder of all, asked only for what exists nowhere."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Raise `ImportError` with the present name of a moved module; find nothing otherwise."""
        if fullname.startswith("astuner.") and (new := find_present_name(fullname)) is not None:
            package = new.partition(".")[0]
            install = "" if package == "astuner" else f", from the package {package.replace('_', '-')}"
            raise ImportError(f"{fullname} is now {new}{install} (docs/api.md lists what a plugin may import)", name=fullname)
        return None


@cache
def read_moved() -> Mapping[str, str]:
    """Return the present name of each module that has moved, by its earlier one."""
    import tomllib
    from pathlib import Path

    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    wings = {room: f"astuner.{wing}.{room}" for wing, rooms in table["wings"].items() for room in rooms.split()}
    return {f"astuner.{old}": new for old, new in {**wings, **table["renamed"]}.items()}


def find_present_name(module: str) -> str | None:
    """Return the present name of a module of earlier states; None if none of its packages has moved."""
    parts = module.split(".")
    for depth in range(len(parts), 1, -1):
        if (new := read_moved().get(".".join(parts[:depth]))) is not None:
            return ".".join([new, *parts[depth:]])
    return None
