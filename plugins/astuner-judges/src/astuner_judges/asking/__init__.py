"""How judges put texts that they do not trust, and prompts that lie in files, to an LLM."""

from astuner_judges.asking.fencing import fence_rule, fenced, shortened
from astuner_judges.asking.llm_usage import write_totals
from astuner_judges.asking.no_verdict import NO_ANSWER, explain_failure, explain_missing_answer
from astuner_judges.asking.templates import Language, Prompt, own_prompt, packaged_prompt, prompt

__all__ = [
    "NO_ANSWER",
    "Language",
    "Prompt",
    "explain_failure",
    "explain_missing_answer",
    "fence_rule",
    "fenced",
    "own_prompt",
    "packaged_prompt",
    "prompt",
    "shortened",
    "write_totals",
]
