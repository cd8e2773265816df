"""The detector `non_ascii`: any character outside of ASCII."""

from __future__ import annotations

from astuner.contract.protocols import Sampled

SHOWN = 8
"""Number of different characters shown."""


class NonAscii:
    """Finds non-ASCII characters, for runs whose answers must be plain ASCII; in other runs π, é and 中文 are ordinary."""

    def look(self, output: Sampled) -> str | None:
        """Return the first distinct ones with their code points."""
        if output.text.isascii():
            return None
        odd = list(dict.fromkeys(character for character in output.text if not character.isascii()))
        shown = ", ".join(f"{character!r} (U+{ord(character):04X})" for character in odd[:SHOWN])
        return shown if len(odd) <= SHOWN else f"{shown} and {len(odd) - SHOWN} more"
