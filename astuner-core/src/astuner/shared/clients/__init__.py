"""Clients of services outside the run, shared by readers, judges and trackers."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.shared.clients.backoff import parse_retry_after as parse_retry_after
    from astuner.shared.clients.backoff import pause_before_retry as pause_before_retry
    from astuner.shared.clients.backoff import spread as spread
    from astuner.shared.clients.blocking import Run as Run
    from astuner.shared.clients.blocking import call_with_runner as call_with_runner
    from astuner.shared.clients.blocking import run_blocking as run_blocking
    from astuner.shared.clients.blocking import wait_until as wait_until
    from astuner.shared.clients.fences import fence as fence
    from astuner.shared.clients.llm import AnswerMalformed as AnswerMalformed
    from astuner.shared.clients.llm import AnswerRefused as AnswerRefused
    from astuner.shared.clients.llm import ContentFailure as ContentFailure
    from astuner.shared.clients.llm import LLMClient as LLMClient
    from astuner.shared.clients.llm import LLMFailed as LLMFailed
    from astuner.shared.clients.llm_budget import Budget as Budget
    from astuner.shared.clients.llm_budget import Limits as Limits
    from astuner.shared.clients.llm_budget import LLMBudgetSpent as LLMBudgetSpent
    from astuner.shared.clients.llm_budget import Usage as Usage
    from astuner.shared.clients.llm_cache import CachedAnswer as CachedAnswer
    from astuner.shared.clients.llm_cache import LLMCache as LLMCache
    from astuner.shared.clients.llm_cache import make_question_key as make_question_key
    from astuner.shared.clients.llm_endpoint import find_endpoint as find_endpoint
    from astuner.shared.clients.llm_json import ask_for_json as ask_for_json
    from astuner.shared.clients.llm_options import LLMOptions as LLMOptions
    from astuner.shared.clients.llm_requests import Patience as Patience
    from astuner.shared.clients.llm_requests import Sender as Sender
    from astuner.shared.clients.llm_requests import Taken as Taken
    from astuner.shared.clients.prompts import Language as Language
    from astuner.shared.clients.prompts import Prompt as Prompt
    from astuner.shared.clients.prompts import fill_prompt as fill_prompt
    from astuner.shared.clients.prompts import load_prompt as load_prompt
    from astuner.shared.clients.prompts import load_user_prompt as load_user_prompt

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
