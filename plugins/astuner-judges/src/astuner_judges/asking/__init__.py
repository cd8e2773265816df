"""Shared parts of the judges that ask an LLM."""

from astuner_judges.asking.fence_rule import fence_rule
from astuner_judges.asking.llm_usage import write_totals
from astuner_judges.asking.no_verdict import NO_ANSWER, explain_failure, explain_missing_answer, is_due_to_texts

__all__ = ["NO_ANSWER", "explain_failure", "explain_missing_answer", "fence_rule", "is_due_to_texts", "write_totals"]
