"""The detector `special_token_leak`: a special token of the tokenizer in the middle of an answer."""

from __future__ import annotations

from collections import Counter

from astuner.contract.protocols import Sampled

AROUND = 40
"""Characters before and after the token that are shown."""


class SpecialTokenLeak:
    """Finds sampled special tokens, by their ids: spelling one out, as in code about chat templates, is ordinary.

    The end of the turn and the tokens of tool calls and reasoning are not leaks.
    """

    def look(self, output: Sampled) -> str | None:
        """Return the tokens, how often each was sampled, and the text around the first."""
        if not output.special_tokens:
            return None
        counted = Counter(output.special_tokens)
        found = ", ".join(f"{token} ({times} times)" if times > 1 else token for token, times in counted.items())
        first = output.special_tokens[0]
        place = max(0, output.text.find(first))
        return f"sampled {found}: {output.text[max(0, place - AROUND) : place + len(first) + AROUND]!r}"
