"""How judges put texts that they do not trust, and prompts that lie in files, to an LLM."""

from astuner_judges.asking.fencing import fence_rule, fenced, shortened
from astuner_judges.asking.findings import no_verdict
from astuner_judges.asking.templates import Language, Prompt, own_prompt, packaged_prompt, prompt

__all__ = [
    "Language",
    "Prompt",
    "fence_rule",
    "fenced",
    "no_verdict",
    "own_prompt",
    "packaged_prompt",
    "prompt",
    "shortened",
]
