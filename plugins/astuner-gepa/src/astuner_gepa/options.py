"""The section `gepa` of the YAML: how prompts are searched for, and which LLM reflects on them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, optional

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.alignment import Alignment
from astuner.settings.config.structure_errors import Fault, FaultsError
from astuner.settings.config.structuring import make_converter
from astuner.shared.clients import LLMClient, LLMOptions

OPENAI = "https://api.openai.com/v1"


@frozen(kw_only=True)
class Reflection(LLMOptions):
    """The LLM that reads what the agent did and writes new prompts."""

    model: str | None = None
    """Its name at the API; required."""
    base_url: str = OPENAI
    """Of any OpenAI-compatible API, with its version, as in `http://127.0.0.1:8000/v1`."""
    api_key_env: str | None = "OPENAI_API_KEY"
    """The environment variable that holds the key; null for a server that needs none."""
    temperature: float | None = field(default=1.0, validator=optional(ge(0)))  # type: ignore[arg-type]  # mypy goes by the default
    """Above 0, so that a prompt that has failed is not proposed again."""
    max_tokens: int = field(default=8192, validator=ge(1))
    """Of one answer, reasoning included."""
    examples: int = field(default=8, validator=ge(1))
    """Most episodes that one question shows, those with the lowest rewards first."""
    show: tuple[str, ...] = ()
    """Fields of a task's metadata that it shows too, such as `answer`."""

    def make_reflection_client(self, config_dir: Path) -> LLMClient:
        """Make the client; raises `ConfigError` if the environment holds no key."""
        key = "none" if self.api_key_env is None else os.environ.get(self.api_key_env, "").strip()
        if not key:
            message = (
                f"the environment variable {self.api_key_env} holds no key for {self.base_url}. Set it (an .env file next to the "
                "YAML is read too), name another one here, or write null if the server needs no key."
            )
            raise ConfigError([Problem(key="gepa.reflection.api_key_env", message=message)])
        environ = {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": key}
        return self.make_client("gepa.reflection", model=self.model or "", config_dir=config_dir, environ=environ)


def _are_not_empty(_: Any, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for agent, text in value.items():
        if not text.strip():
            raise ValueError(
                f"'{attribute.name}': the text of {agent!r} is empty; copy it from the workflow, or leave the agent out"
            )


@frozen(kw_only=True)
class Options:
    """How prompts are searched for."""

    prompts: Mapping[str, str] = field(factory=dict, validator=_are_not_empty)
    """The texts to tune, by agent, as the workflow sends them in its system messages or as a part of these. Without it, the
    whole system message of each trained agent."""
    perfect_score: float | None = 1.0
    """A reward that cannot be raised: a batch in which every task has it is not reflected on, and the search ends when every
    validation task has it. Null if rewards have no upper bound."""
    selection: Literal["pareto", "current_best", "epsilon_greedy", "top_k_pareto"] = "pareto"
    """Which prompts the next ones are made from."""
    components: Literal["round_robin", "all"] = "round_robin"
    """Whether each proposal changes the prompt of one agent, in turn, or those of all."""
    acceptance: Literal["strict_improvement", "improvement_or_equal"] = "strict_improvement"
    """What new prompts must do on the tasks of their batch to be validated."""
    max_episodes: int | None = field(default=None, validator=optional(ge(1)))
    """Most episodes of the whole run, validation included; retries of failed ones are not counted."""
    reflection: Reflection = field(factory=Reflection)


def read_options(native: Mapping[str, Any]) -> Options:
    """Return the options of a checked section."""
    return make_converter().structure(dict(native), Options)


def _check(native: Mapping[str, Any]) -> tuple[Fault, ...]:
    try:
        options = make_converter().structure(dict(native), Options)
    except FaultsError as error:
        return tuple(error.faults)
    if not (options.reflection.model or options.reflection.model_name):
        return (Fault(message="this key is required: the LLM that writes the prompts.", path=("reflection", "model")),)
    return ()


def _list_defaults() -> Mapping[str, Any]:
    defaults: Mapping[str, Any] = make_converter().unstructure(Options())
    return defaults


ALIGNMENT = Alignment(root="gepa", rows=(), defaults=_list_defaults, check=_check)
