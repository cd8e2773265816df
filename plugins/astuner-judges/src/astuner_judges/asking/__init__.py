"""How judges put texts that they do not trust, and prompts that lie in files, to an LLM."""

from astuner_judges.asking.fencing import fence_rule, fenced, shortened
from astuner_judges.asking.llm_usage import write_totals
from astuner_judges.asking.no_verdict import NO_ANSWER, no_answer, no_verdict
from astuner_judges.asking.templates import Language, Prompt, own_prompt, packaged_prompt, prompt

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
