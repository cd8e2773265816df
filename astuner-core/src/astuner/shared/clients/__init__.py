"""Clients of services outside the run, shared by readers, judges and trackers."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.shared.clients.backoff import parse_retry_after, pause_before_retry, spread
    from astuner.shared.clients.blocking import Run, call_with_runner, run_blocking, wait_until
    from astuner.shared.clients.fences import fence
    from astuner.shared.clients.llm import AnswerMalformed, AnswerRefused, ContentFailure, LLMClient, LLMFailed
    from astuner.shared.clients.llm_budget import Budget, Limits, LLMBudgetSpent, Usage
    from astuner.shared.clients.llm_cache import CachedAnswer, LLMCache, make_question_key
    from astuner.shared.clients.llm_endpoint import find_endpoint
    from astuner.shared.clients.llm_json import ask_for_json
    from astuner.shared.clients.llm_options import LLMOptions
    from astuner.shared.clients.llm_requests import Patience, Sender, Taken
    from astuner.shared.clients.prompts import Language, Prompt, fill_prompt, load_prompt, load_user_prompt

__all__ = [
    "AnswerMalformed",
    "AnswerRefused",
    "Budget",
    "CachedAnswer",
    "ContentFailure",
    "LLMBudgetSpent",
    "LLMCache",
    "LLMClient",
    "LLMFailed",
    "LLMOptions",
    "Language",
    "Limits",
    "Patience",
    "Prompt",
    "Run",
    "Sender",
    "Taken",
    "Usage",
    "ask_for_json",
    "call_with_runner",
    "fence",
    "fill_prompt",
    "find_endpoint",
    "load_prompt",
    "load_user_prompt",
    "make_question_key",
    "parse_retry_after",
    "pause_before_retry",
    "run_blocking",
    "spread",
    "wait_until",
]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
