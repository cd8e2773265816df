"""The options with which a component asks an LLM: shared by judges and readers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, optional

from astuner.shared.clients.llm import LIMIT, NEW_LIMIT, LLMClient, Patience
from astuner.shared.clients.llm_budget import Budget, Limits, make_budget
from astuner.shared.clients.llm_cache import LLMCache
from astuner.shared.clients.llm_endpoint import find_endpoint


def _has_prices(instance: LLMOptions, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not (instance.prompt_price or instance.completion_price):
        raise ValueError("max_cost needs prompt_price or completion_price, without which every request costs nothing")


def _has_whole_limits(instance: LLMOptions, attribute: Attribute[Any], value: Mapping[str, Any]) -> None:
    for name in (LIMIT, NEW_LIMIT):
        limit = value.get(name)
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"{name} must be null or a whole number of at least 1, without quotes, got {limit!r}")


@frozen(kw_only=True)
class LLMOptions:
    """How an LLM behind an OpenAI-compatible API is asked. Its address and keys come from the environment."""

    model_name: str | None = None
    """The model; the component's own default when null."""
    temperature: float | None = field(default=0.0, validator=optional(ge(0)))  # type: ignore[arg-type]  # mypy goes by the default
    """0 makes answers as repeatable as the API allows; null leaves it to the API."""
    concurrency: int = field(default=16, validator=ge(1))
    """Concurrent requests."""
    max_retries: int = field(default=4, validator=ge(0))
    """After rate limits, errors of the server and lost connections. A wait that the API asks for is none, within `timeout_s`."""
    timeout_s: float = field(default=180.0, validator=gt(0))
    """For one question with all its retries."""
    max_requests: int | None = field(default=None, validator=optional(ge(1)))
    """Most requests of a run's process and its rollout workers together; null for no limit."""
    max_total_tokens: int | None = field(default=None, validator=optional(ge(1)))
    """Most tokens of prompts and answers together."""
    prompt_price: float = field(default=0.0, validator=ge(0))
    """Per million tokens, in any currency."""
    completion_price: float = field(default=0.0, validator=ge(0))
    """Per million tokens, in the same currency."""
    max_cost: float | None = field(default=None, validator=[optional(gt(0)), _has_prices])
    """Most that all requests may cost, in that currency."""
    cache: str | None = None
    """A file that stores answers, so that the same question is asked once; relative to the YAML. Null stores none."""
    extra: Mapping[str, Any] = field(factory=dict, validator=_has_whole_limits)
    """Further fields of each request, such as `top_p`, `seed` or `extra_body`; a field that is null is not sent."""

    def make_client(
        self,
        wanted_by: str,
        *,
        model: str,
        config_dir: Path,
        environ: Mapping[str, str] | None = None,
        budget: Budget | None = None,
    ) -> LLMClient:
        """Make the client; `model` is used if `model_name` is null. Raises `NoEndpoint`, and `DataError` for the cache."""
        endpoint = find_endpoint(os.environ if environ is None else environ, wanted_by)
        limits = Limits(
            max_requests=self.max_requests,
            max_tokens=self.max_total_tokens,
            max_cost=self.max_cost,
            prompt_price=self.prompt_price,
            completion_price=self.completion_price,
        )
        patience = Patience(concurrency=self.concurrency, max_retries=self.max_retries, timeout_s=self.timeout_s)
        cache = None if self.cache is None else LLMCache((config_dir / Path(self.cache).expanduser()).resolve())
        return LLMClient(
            endpoint,
            self.model_name or model,
            patience,
            budget=budget or make_budget(limits),
            cache=cache,
            always={"temperature": self.temperature, **self.extra},
        )
