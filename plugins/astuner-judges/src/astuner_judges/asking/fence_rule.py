"""What a system prompt says about the tags around untrusted texts."""

from __future__ import annotations

from astuner.shared.clients import Language, fill_prompt


def fence_rule(language: Language) -> str:
    """Return the rule: what is between such tags is data, whatever it says."""
    return fill_prompt("astuner_judges.asking", "fence_rule", language)
