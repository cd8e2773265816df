"""How judges put texts that they do not trust, and prompts that lie in files, to an LLM."""

from astuner_judges.asking.fencing import fence_rule, fenced, shortened
from astuner_judges.asking.findings import NO_ANSWER, no_answer, no_verdict
from astuner_judges.asking.templates import Language, Prompt, own_prompt, packaged_prompt, prompt
from astuner_judges.asking.totals import write_totals

__all__ = [
    "NO_ANSWER",
    "Language",
    "Prompt",
    "fence_rule",
    "fenced",
    "no_answer",
    "no_verdict",
    "own_prompt",
    "packaged_prompt",
    "prompt",
    "shortened",
    "write_totals",
]
