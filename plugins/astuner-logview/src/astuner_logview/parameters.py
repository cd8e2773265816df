"""The parameters of a request, read as what a page needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from astuner.contract.schema import Split
from astuner_logview.errors import BadRequest


@frozen(kw_only=True)
class Parameters:
    """What follows the `?` of an address, and the run that the address itself names."""

    run: str | None = None
    """The id of a run; None for an address that names none."""
    values: Mapping[str, Sequence[str]] = field(factory=dict)
    """Every value of each parameter, decoded, in their order."""

    def find_text(self, name: str) -> str | None:
        """Return the last value of a parameter; None without one."""
        found = self.values.get(name)
        return found[-1] if found else None

    def read_text(self, name: str) -> str:
        """Return a value that has to be there."""
        found = self.find_text(name)
        if found is None:
            raise BadRequest(f"the parameter '{name}' is missing", f"add {name}=… to the address")
        return found

    def find_number(self, name: str) -> int | None:
        """Return a whole number; None without one."""
        text = self.find_text(name)
        if text is None or text == "":
            return None
        if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 15:
            raise BadRequest(f"{name}: '{text[:40]}' is not a whole number", "give a number")
        return int(text)

    def read_number(self, name: str) -> int:
        """Return a whole number that has to be there."""
        found = self.find_number(name)
        if found is None:
            raise BadRequest(f"the parameter '{name}' is missing", f"add {name}=… to the address")
        return found

    def find_split(self) -> Split | None:
        """Return the split; None without one."""
        match self.find_text("split"):
            case None | "":
                return None
            case "train":
                return "train"
            case "validation":
                return "validation"
            case other:
                raise BadRequest(f"split: '{other[:40]}' is not a split", "give train or validation")

    def find_choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of some words; without the parameter, the first of them."""
        text = self.find_text(name) or choices[0]
        if text not in choices:
            raise BadRequest(f"{name}: '{text[:40]}' is not known", f"give one of {', '.join(choices)}")
        return text

    def find_limit(self, default: int, most: int) -> int:
        """Return how many rows are wanted."""
        return max(1, min(most, self.find_number("limit") or default))
